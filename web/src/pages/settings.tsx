// Settings: of this browser; and what the server says about itself.
import { get, session } from "../client";
import type { Alive, Ready } from "../api";
import { duration, setUtc, utc } from "../format";
import { liveState, useLive } from "../live";
import { setTheme, theme, type Theme } from "../theme";
import { Card, PageHead, Show, Tabs, useTitle } from "../ui/basic";
import { State } from "../ui/icons";

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

export function Settings() {
    useTitle("Settings");
    const me = session.value!;
    const view = useLive("settings", async (signal) => ({ alive: await get<Alive>("healthz", {}, signal), ready: await get<Ready>("readyz", {}, signal) }), { wants: () => false });
    return (
        <>
            <PageHead title="Settings" />
            <div class="grid">
                <Card title="This browser">
                    <dl class="facts">
                        <div>
                            <dt>Colours</dt>
                            <dd>
                                <Tabs label="colours" value={theme.value} options={[["system", "system"], ["light", "light"], ["dark", "dark"]]} onChange={(value) => setTheme(value as Theme)} />
                            </dd>
                        </div>
                        <div>
                            <dt>Times</dt>
                            <dd>
                                {ZONE === "UTC" ? (
                                    "UTC, which is your zone"
                                ) : (
                                    <Tabs label="times" value={utc.value ? "utc" : "local"} options={[["local", ZONE], ["utc", "UTC"]]} onChange={(value) => setUtc(value === "utc")} />
                                )}
                            </dd>
                        </div>
                        <div>
                            <dt>Updates</dt>
                            <dd>{liveState.value}</dd>
                        </div>
                    </dl>
                </Card>
                <Card title="You">
                    <dl class="facts">
                        <div><dt>Name</dt><dd><bdi>{me.name}</bdi></dd></div>
                        <div><dt>Scopes</dt><dd>{me.scopes.join(", ")}</dd></div>
                        <div><dt>Tenant</dt><dd>{me.tenant ?? "all"}</dd></div>
                        <div><dt>Login</dt><dd>{me.login ? "by token" : "not needed on the server's own machine: there are no tokens"}</dd></div>
                    </dl>
                </Card>
                <Card title="Server" side={view.data && <State name={view.data.ready.status} />}>
                    <Show view={view} rows={3}>
                        {({ alive, ready }) => (
                            <dl class="facts">
                                <div><dt>Version</dt><dd>{alive.version}</dd></div>
                                {me.store && <div><dt>Store</dt><dd><code>{me.store}</code></dd></div>}
                                {ready.store_latency_us !== undefined && <div><dt>Answers in</dt><dd>{duration(ready.store_latency_us)}</dd></div>}
                                <div><dt>API</dt><dd><a href="v1/openapi.json" target="_blank" rel="noreferrer">OpenAPI 3.1</a></dd></div>
                            </dl>
                        )}
                    </Show>
                </Card>
            </div>
        </>
    );
}
