// Numbers, times and names as people read them.
import { signal } from "@preact/signals";

export const utc = signal(localStorage.getItem("pawl.utc") === "yes");
export function setUtc(on: boolean): void {
    utc.value = on;
    localStorage.setItem("pawl.utc", on ? "yes" : "no");
}

const whole = new Intl.NumberFormat("en");

export function number(n: number): string {
    return whole.format(n);
}

export function compact(n: number): string {
    if (n < 10000) return whole.format(n);
    for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
        if (n >= size) return (n / size).toFixed(n / size < 100 ? 1 : 0) + " " + unit;
    }
    return String(n);
}

export function bytes(n: number): string {
    if (n < 1024) return n + " B";
    return n < 1048576 ? (n / 1024).toFixed(1) + " KiB" : (n / 1048576).toFixed(1) + " MiB";
}

// Two units at most: 3 h 20 min.
export function duration(us: number): string {
    if (us < 0) return "-" + duration(-us);
    if (us < 1000) return us + " µs";
    const ms = us / 1000;
    if (ms < 1000) return (ms < 10 ? ms.toFixed(1) : Math.round(ms)) + " ms";
    const s = ms / 1000;
    if (s < 60) return (s < 10 ? s.toFixed(1) : Math.floor(s)) + " s";
    const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]] as const;
    for (let i = 0; i < 3; i++) {
        const [size, unit] = units[i]!;
        if (s < size) continue;
        const [small, name] = units[i + 1]!;
        const rest = Math.floor((s % size) / small);
        return Math.floor(s / size) + " " + unit + (rest ? " " + rest + " " + name : "");
    }
    return Math.floor(s) + " s";
}

export function ago(at: number, now: number): string {
    const us = (now - at) * 1000;
    if (Math.abs(us) < 1e6) return "now";
    return us > 0 ? short(us) + " ago" : "in " + short(-us);
}

function short(us: number): string {
    const s = us / 1e6;
    if (s < 60) return Math.floor(s) + " s";
    if (s < 3600) return Math.floor(s / 60) + " min";
    if (s < 86400) return Math.floor(s / 3600) + " h";
    return Math.floor(s / 86400) + " d";
}

// The instant itself, in the viewer's zone or in UTC, with the fraction as it was sent.
export function exact(text: string): string {
    const at = new Date(text);
    if (isNaN(at.getTime())) return text;
    const fraction = (/\.\d+/.exec(text)?.[0] ?? "").replace(/\.?0+$/, "");
    const two = (n: number): string => String(n).padStart(2, "0");
    if (utc.value) return text.replace("T", " ").replace(/(\.\d*?)0*Z/, "$1Z").replace(/\.?Z/, " UTC");
    const east = -at.getTimezoneOffset();
    const zone = `${east < 0 ? "-" : "+"}${two(Math.floor(Math.abs(east) / 60))}:${two(Math.abs(east) % 60)}`;
    return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}${fraction} ${zone}`;
}

export function clock(text: string): string {
    const at = new Date(text);
    const fraction = (/\.(\d{3})/.exec(text)?.[0] ?? "");
    const two = (n: number): string => String(n).padStart(2, "0");
    return utc.value
        ? `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}${fraction}`
        : `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}${fraction}`;
}

export const between = (from: string, to: string): number => (Date.parse(to) - Date.parse(from)) * 1000;

export function plural(n: number, one: string, many = one + "s"): string {
    return `${number(n)} ${n === 1 ? one : many}`;
}

// What stands for {permits, period} in words: 15 per minute.
export function rateText(permits: number, period_us: number): string {
    const units: Record<number, string> = { 1e6: "second", 6e7: "minute", 3.6e9: "hour", 8.64e10: "day" };
    return `${number(permits)} per ${units[period_us] ?? duration(period_us)}`;
}
