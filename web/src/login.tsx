import { useState } from "preact/hooks";
import { login, logout, Problem, session } from "./client";
import { Button, useTitle } from "./ui/basic";

export function Login() {
    const [token, setToken] = useState("");
    const [wrong, setWrong] = useState("");
    const [busy, setBusy] = useState(false);
    useTitle("Log in");
    const enter = async (): Promise<void> => {
        setBusy(true);
        try {
            await login(token.trim());
        } catch (error) {
            setWrong(error instanceof Problem ? error.message : String(error));
            setBusy(false);
        }
    };
    return (
        <main class="alone">
            <form
                class="card login"
                onSubmit={(event) => {
                    event.preventDefault();
                    void enter();
                }}
            >
                <h1>Pawl</h1>
                <label class="field">
                    <span>Token</span>
                    <input name="token" type="password" value={token} autocomplete="current-password" required autofocus onInput={(event) => setToken(event.currentTarget.value)} />
                </label>
                {wrong && (
                    <p class="wrong" role="alert">
                        {wrong}
                    </p>
                )}
                <button type="submit" class="button main" disabled={busy || !token.trim()}>
                    Log in
                </button>
                <p class="faint">
                    A token is made on the server: <code>pawl tokens add NAME --scope operate</code>, or <code>--scope read</code> for one that only looks.
                </p>
            </form>
        </main>
    );
}

const MAY: Record<string, string> = {
    enqueue: "hand over tasks: POST v1/tasks",
    work: "take and run tasks, as a remote worker: POST v1/workers",
    operate: "cancel, retry, pause and limit, by the API",
    admin: "change hooks and settings, by the API",
};

// Who has a token that is of use elsewhere.
export function NoEntry() {
    const me = session.value!;
    useTitle("No entry");
    return (
        <main class="alone">
            <section class="card login">
                <h1>Pawl</h1>
                <p>
                    The token “<bdi>{me.name}</bdi>” may not read, so it sees nothing here. It may:
                </p>
                <ul>
                    {me.scopes.map((scope) => (
                        <li key={scope}>{MAY[scope] ?? scope}</li>
                    ))}
                </ul>
                <Button kind="main" onClick={() => void logout()}>
                    Use another token
                </Button>
                <p class="faint">
                    One that looks is made on the server: <code>pawl tokens add NAME --scope read</code>, or <code>--scope operate</code> for one that also acts.
                </p>
            </section>
        </main>
    );
}
