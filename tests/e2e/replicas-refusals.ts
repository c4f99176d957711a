// The answers of a server whose store refuses writes, is away at the start, or commits without answering.
import { expect } from "vitest";
import { openSessions, post } from "./replicas-load.ts";
import type { Replica } from "./replicas-servers.ts";
import { run, start } from "./serve-process.ts";

const increment = (call: string): string => JSON.stringify({ tool: "increment_counter", input: { count: 1 }, call });

interface Refusal {
  begin(): Promise<unknown>;
  error: { status: number; code: string; message: string };
  end(): Promise<unknown>;
}

/** Checks that a call is refused with this error in time, reads still work, and the same call succeeds afterwards. */
export async function expectRefused([replica]: Replica[], { begin, error, end }: Refusal): Promise<void> {
  const { url } = replica as Replica;
  const [session] = await openSessions([{ url }], 1);
  const path = `${url}/v1/sessions/${session}`;
  expect(await post(undefined, `${path}/call`, increment("before"))).toMatchObject({ status: 200 });
  await begin();
  const refused = async () => post(undefined, `${path}/call`, increment("refused"));
  let answer = await refused();
  // A call in flight when the connections were cut reports that, and is the last one to do so.
  while (JSON.stringify(answer).includes("terminating connection")) answer = await refused();
  const { status, code, message } = error;
  expect(answer).toMatchObject({
    status,
    body: { error: { code, message: expect.stringContaining(message) as string } },
  });
  expect((answer as { ms: number }).ms).toBeLessThan(6000);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  await end();
  await expect.poll(refused, { timeout: 10_000 }).toMatchObject({ status: 200, body: { version: 4, repeated: false } });
  const state: unknown = await (await fetch(`${path}/state`)).json();
  expect(state).toMatchObject({ version: 4, state: { count: 2 } });
}

/** Checks a call whose commit is in flight when the store pauses, and is applied when it resumes. */
export async function expectResolved(replicas: Replica[], store: { pause(): void; resume(): void }): Promise<void> {
  const [first, second] = replicas as [Replica, Replica];
  const [session] = await openSessions(replicas, 1);
  const callAt = ({ url }: Replica, call: string) =>
    post(undefined, `${url}/v1/sessions/${session}/call`, increment(call));
  // The first replica knows the newest version, so that its commit is accepted later.
  for (const replica of [second, first]) expect(await callAt(replica, replica.url)).toMatchObject({ status: 200 });
  store.pause();
  expect(await callAt(first, "a")).toMatchObject({
    status: 503,
    retryAfter: "1",
    body: { error: { code: "store_busy" } },
  });
  store.resume();
  const version = async (): Promise<number> => {
    const response = await fetch(`${second.url}/v1/sessions/${session}/state`);
    return ((await response.json()) as { version: number }).version;
  };
  await expect.poll(version, { timeout: 10_000 }).toBe(5);
  const answered = await callAt(second, "a");
  expect(answered).toMatchObject({ status: 200, body: { version: 5, repeated: true } });
  expect(await callAt(first, "a")).toEqual({ ...(answered as object), ms: expect.any(Number) as number });
}

interface Server {
  url: string;
  kill(): Promise<void>;
  restart(): Promise<void>;
}

/** A server that starts while its store is away waits for it. With a wrong URL it exits at once. */
export async function expectWaiting(server: Server, url: string, wrong: string, why: string): Promise<void> {
  const serving = ["serve", "examples/counter", "--port", "0", "--store"];
  const refused = await run(...serving, wrong);
  expect(refused).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining(why) as string });
  // One line: it did not wait.
  expect(refused.stderr).toMatch(/^store_\w+: .*\n$/);

  await server.kill();
  const waiting = await start([...serving, url]);
  let errors = "";
  waiting.process.stderr?.on("data", (chunk) => (errors += String(chunk)));
  await expect
    .poll(() => errors, { timeout: 30_000 })
    .toMatch(/^waiting up to 30 s for the store: .*cannot be reached/);
  expect(errors).not.toContain("sesame");
  await server.restart();
  await expect.poll(() => waiting.printed(), { timeout: 30_000 }).toMatch(/^listening on /);
  waiting.process.kill("SIGTERM");
  expect((await waiting.ended).code).toBe(0);
}
