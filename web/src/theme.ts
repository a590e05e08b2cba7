// Light or dark: as the system has it, unless somebody chose.
import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

export const theme = signal<Theme>((localStorage.getItem("pawl.theme") as Theme | null) ?? "system");
const system = matchMedia("(prefers-color-scheme: dark)");
// Counts up when colours change: pictures that are not made of CSS are drawn again.
export const colours = signal(0);

export function applyTheme(): void {
    const dark = theme.value === "dark" || (theme.value === "system" && system.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    colours.value++;
}

export function setTheme(value: Theme): void {
    theme.value = value;
    localStorage.setItem("pawl.theme", value);
    applyTheme();
}

system.addEventListener("change", applyTheme);

export function colour(name: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}
