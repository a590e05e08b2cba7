import { useState } from "preact/hooks";
import { login, Problem } from "./client";
import { useTitle } from "./ui/basic";

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
