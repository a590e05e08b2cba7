// The frame around all pages: navigation, search, state of the connection, keys.
import { useEffect, useState } from "preact/hooks";
import { can, logout, Problem, session, whoAmI, wholeStore } from "./client";
import { liveState, lostServer, togglePause } from "./live";
import { Login, NoEntry } from "./login";
import { keys, showKeys } from "./keys";
import { nav, pageOf } from "./pages";
import { go, link, place } from "./router";
import { setTheme, theme } from "./theme";
import { Trouble } from "./ui/basic";
import { Dialogs, Toasts } from "./ui/dialog";
import { Icon } from "./ui/icons";

const LIVE: Record<string, string> = {
    live: "Live: changes show by themselves. Key p pauses.",
    paused: "Paused: what you see stays as it is. Key p goes on.",
    reconnecting: "The server does not answer: connecting again. Nothing is lost, pages are asked anew.",
    polling: "Asked again every few seconds.",
};

function LiveState() {
    const state = liveState.value;
    return (
        <button type="button" class={"live " + state} title={LIVE[state]} aria-label={"live updates: " + state} data-testid="live" data-live={state} onClick={togglePause}>
            <span class="dot" aria-hidden="true" />
            <span class="word">{state}</span>
        </button>
    );
}

// An id goes to its task; name:value pairs and words become a filter.
export function searchFor(text: string): void {
    const trimmed = text.trim();
    if (/^[0-9a-hjkmnp-tv-zA-HJKMNP-TV-Z]{13}$/.test(trimmed)) {
        go("tasks/" + trimmed);
        return;
    }
    const query: Record<string, string> = {};
    const words: string[] = [];
    for (const part of trimmed.match(/(?:[^\s"]|"[^"]*")+/g) ?? []) {
        const found = /^(state|type|queue|tenant|key):(.+)$/.exec(part);
        if (found) query[found[1]!] = found[2]!.replace(/^"|"$/g, "");
        else words.push(part.replace(/^"|"$/g, ""));
    }
    if (words.length) query.q = words.join(" ");
    go("tasks", query);
}

function Search() {
    const [text, setText] = useState("");
    return (
        <form
            class="search"
            role="search"
            onSubmit={(event) => {
                event.preventDefault();
                searchFor(text);
                setText("");
                document.getElementById("main")?.focus(); // keys are for what was found
            }}
        >
            <Icon name="search" />
            <input
                id="search"
                value={text}
                aria-label="search tasks"
                placeholder="id, type:email.send, state:failed, words…"
                autocomplete="off"
                spellcheck={false}
                onInput={(event) => setText(event.currentTarget.value)}
                onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
            />
            <kbd aria-hidden="true">/</kbd>
        </form>
    );
}

function Nav({ onGo }: { onGo: () => void }) {
    const here = place.value.path[0] ?? (wholeStore() ? "overview" : "tasks");
    return (
        <nav aria-label="pages">
            <ul>
                {nav().map((item) => (
                    <li key={item.path} class={item.gap ? "gap" : ""}>
                        <a href={link(item.path)} aria-current={here === item.path ? "page" : undefined} onClick={onGo} title={`key g ${item.key}`}>
                            <Icon name={item.icon} />
                            <span>{item.title}</span>
                        </a>
                    </li>
                ))}
            </ul>
        </nav>
    );
}

function Account() {
    const me = session.value!;
    const next = theme.value === "dark" ? "light" : theme.value === "light" ? "system" : "dark";
    return (
        <div class="account">
            <button type="button" class="quiet" aria-label={`colours: ${theme.value}; change to ${next}`} title={`colours: ${theme.value}`} onClick={() => setTheme(next)}>
                <Icon name="sun" />
            </button>
            <button type="button" class="quiet" aria-label="help: keys" title="keys (?)" onClick={showKeys}>
                <Icon name="help" />
            </button>
            <span class="who" title={`scopes: ${me.scopes.join(", ")}${me.tenant ? `; tenant ${me.tenant}` : ""}`}>
                <bdi>{me.name}</bdi>
                <small>{can("admin") ? "admin" : can("operate") ? "operator" : can("enqueue") ? "may hand over" : "read only"}</small>
            </span>
            {me.login && (
                <button type="button" class="quiet" aria-label="log out" title="log out" onClick={() => void logout()}>
                    <Icon name="out" />
                </button>
            )}
        </div>
    );
}

function Frame() {
    const [menu, setMenu] = useState(false);
    const Page = pageOf(place.value.path);
    useEffect(() => {
        document.addEventListener("keydown", keys);
        return () => document.removeEventListener("keydown", keys);
    }, []);
    const where = place.value.path.join("/");
    useEffect(() => {
        setMenu(false);
        scrollTo(0, 0);
    }, [where]);
    return (
        <div class={"frame" + (menu ? " menu-open" : "")}>
            <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>
                to the content
            </a>
            <aside class="sidebar">
                <a class="brand" href={link("overview")}>
                    <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
                        <rect width="32" height="32" rx="7" class="brand-back" />
                        <circle cx="14" cy="18" r="7.5" fill="none" stroke="#fff" stroke-width="3" stroke-dasharray="4.4 2.33" />
                        <circle cx="14" cy="18" r="2.6" fill="#fff" />
                        <path d="M26.5 5.5 18 10.2l1.2 3.2 8.4-4.6z" fill="#ffd166" />
                    </svg>
                    Pawl
                </a>
                <Nav onGo={() => setMenu(false)} />
                <p class="version">{session.value?.version}</p>
            </aside>
            <div class="column">
                <header class="topbar">
                    <button type="button" class="quiet menu-button" aria-label="menu" aria-expanded={menu} onClick={() => setMenu(!menu)}>
                        <Icon name="menu" />
                    </button>
                    <Search />
                    <LiveState />
                    <Account />
                </header>
                <main id="main" tabIndex={-1}>
                    {lostServer.value && (
                        <div class="notice red" role="status">
                            The server does not answer: what you see is older. It is asked again by itself.
                        </div>
                    )}
                    <Page />
                </main>
            </div>
        </div>
    );
}

export function App() {
    const [problem, setProblem] = useState<Problem | null>(null);
    const ask = (): void => {
        setProblem(null);
        whoAmI().catch((error) => {
            setProblem(error instanceof Problem ? error : new Problem(0, "page", String(error)));
            setTimeout(ask, 2000);
        });
    };
    useEffect(ask, []);
    const me = session.value;
    return (
        <>
            {me === undefined && problem && (
                <main class="alone">
                    <Trouble problem={problem} />
                </main>
            )}
            {me === null && <Login />}
            {me && !can("read") && <NoEntry />}
            {me && can("read") && <Frame />}
            <Dialogs />
            <Toasts />
        </>
    );
}
