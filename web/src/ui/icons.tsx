// Pictures are lines in a square of 16; states have a shape of their own beside their colour.
const PATHS: Record<string, string> = {
    overview: "M2 13h12M4 13V8M8 13V3M12 13V6",
    tasks: "M6 4h8M6 8h8M6 12h8M2 4h1M2 8h1M2 12h1",
    failures: "M8 2 15 14H1zM8 6v4M8 12v.2",
    queues: "M2 4h12v3H2zM2 9h12v3H2z",
    schedules: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 5v3.3l2.4 1.5",
    limits: "M2.5 12a6 6 0 1 1 11 0M8 10l3-4",
    nodes: "M2 3h12v4H2zM2 9h12v4H2zM4.5 5h.2M4.5 11h.2",
    dead: "M2 9V4h12v5M2 9v4h12V9h-4l-1 2H7L6 9zM6.6 5l2.8 2.6M9.4 5 6.6 7.6",
    batches: "M4 4m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M12 8m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M4 12m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M6 5l4 2M6 11l4-2",
    hooks: "M10.5 2v6.5a3.5 3.5 0 1 1-7 0V7M1.8 9 3.5 7l2 2M8.5 2h4",
    log: "M4 2h8v12H4zM6.5 5h3M6.5 8h3M6.5 11h3",
    settings: "M2 4.5h7M13 4.5h1M11 3v3M2 11.5h1M7 11.5h7M5 10v3",
    search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.5 14 14",
    menu: "M2 4h12M2 8h12M2 12h12",
    copy: "M6 6h7v7H6zM10 6V3H3v7h3",
    close: "M4 4l8 8M12 4l-8 8",
    play: "M5 3.5v9l7-4.5z",
    pause: "M5 3.5v9M11 3.5v9",
    retry: "M13 8a5 5 0 1 1-1.6-3.7M13.2 2v3h-3",
    stop: "M4 4h8v8H4z",
    plus: "M8 3v10M3 8h10",
    check: "M3 8.5 6.5 12 13 4.5",
    down: "M4 6l4 4 4-4",
    right: "M6 4l4 4-4 4",
    help: "M5.5 6a2.5 2.5 0 1 1 3.6 2.2C8.3 8.7 8 9 8 10M8 12.6v.2",
    out: "M6 3H3v10h3M7 8h6M10.5 5.5 13 8l-2.5 2.5",
    clone: "M3 3h7v7H3zM6 13h7V6",
    save: "M8 2v8M4.5 7 8 10.5 11.5 7M3 13.5h10",
    sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1",
};

export function Icon({ name, label }: { name: string; label?: string }) {
    return (
        <svg class="icon" viewBox="0 0 16 16" width="16" height="16" role={label ? "img" : undefined} aria-label={label} aria-hidden={label ? undefined : true}>
            <path d={PATHS[name] ?? ""} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" />
        </svg>
    );
}

const SHAPES: Record<string, preact.ComponentChildren> = {
    hollow: <circle cx="6" cy="6" r="3.6" fill="none" stroke="currentColor" stroke-width="1.6" />,
    clock: <path d="M6 1.8a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4zM6 3.8V6l1.6 1" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" />,
    play: <path d="M3.5 2v8L10 6z" fill="currentColor" />,
    again: <path d="M9.6 6A3.7 3.7 0 1 1 8.4 3.2M9.7 1.4v2.4H7.3" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" />,
    bars: <path d="M4 2.5v7M8 2.5v7" stroke="currentColor" stroke-width="2" stroke-linecap="round" />,
    glass: <path d="M3 1.8h6L6.6 6 9 10.2H3L5.4 6z" fill="none" stroke="currentColor" stroke-width="1.3" stroke-linejoin="round" />,
    check: <path d="M2.2 6.4 4.8 9l5-6" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" />,
    cross: <path d="M3 3l6 6M9 3 3 9" stroke="currentColor" stroke-width="1.9" stroke-linecap="round" />,
    minus: <path d="M2.5 6h7" stroke="currentColor" stroke-width="1.9" stroke-linecap="round" />,
    alert: <path d="M6 1.8v5M6 9.4v.3" stroke="currentColor" stroke-width="1.9" stroke-linecap="round" />,
    dots: <path d="M2.6 6h.1M6 6h.1M9.4 6h.1" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" />,
};

// What each word of a state looks like: tone, shape.
const STATES: Record<string, [string, string]> = {
    waiting: ["grey", "dots"],
    pending: ["blue", "hollow"],
    scheduled: ["violet", "clock"],
    retrying: ["amber", "again"],
    throttled: ["amber", "glass"],
    blocked: ["amber", "bars"],
    leased: ["cyan", "play"],
    running: ["cyan", "play"],
    stale: ["red", "alert"],
    succeeded: ["green", "check"],
    failed: ["red", "cross"],
    cancelled: ["grey", "minus"],
    retry: ["amber", "again"],
    retried: ["amber", "again"],
    timeout: ["red", "clock"],
    snooze: ["violet", "clock"],
    snoozed: ["violet", "clock"],
    released: ["grey", "minus"],
    rescued: ["red", "alert"],
    paused: ["amber", "bars"],
    open: ["green", "hollow"],
    alive: ["green", "check"],
    draining: ["amber", "bars"],
    dead: ["grey", "cross"],
    ready: ["green", "check"],
    degraded: ["amber", "alert"],
    unhealthy: ["red", "cross"],
    stopping: ["amber", "bars"],
    unserved: ["amber", "alert"],
    disabled: ["amber", "bars"],
    ended: ["grey", "check"],
    gone: ["grey", "minus"],
    invalid: ["red", "cross"],
    closed: ["blue", "hollow"],
    unstarted: ["grey", "minus"],
    skipped: ["amber", "minus"],
    held: ["amber", "bars"],
    limited: ["blue", "glass"],
    enabled: ["green", "check"],
    ok: ["green", "check"],
};

export function toneOf(state: string): string {
    return (STATES[state] ?? ["grey", ""])[0];
}

export function State({ name, label }: { name: string; label?: string }) {
    const [tone, shape] = STATES[name] ?? ["grey", "hollow"];
    return (
        <span class={"state " + tone} data-state={name}>
            <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
                {SHAPES[shape] ?? SHAPES.hollow}
            </svg>
            {label ?? name}
        </span>
    );
}
