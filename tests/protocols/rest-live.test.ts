// Live events over server-sent events.
import { getActiveResourcesInfo } from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { createSessions, defineEnvironment, tool, type NumberedEvent, type Store } from "holdfast";
import { describe, expect, test } from "vitest";
import { everyStore } from "../every-store.ts";
import { counter } from "../session/counter.ts";
import { onEveryStore, open } from "../session/engine.ts";
import { gate } from "../agent/engine.ts";
import { clientOf, type Asked, type Client } from "./rest-client.ts";

const [memory] = everyStore as [(typeof everyStore)[0]];

/** Parses one message as a browser would. */
function parse(text: string): { id: number; event: string; data: NumberedEvent } {
  const match = /^id: (\d+)\nevent: ([a-z.]+)\ndata: (.*)\n\n$/.exec(text);
  if (!match) throw new Error(`not one whole message: ${text}`);
  const [, id, event = "", data = ""] = match;
  return { id: Number(id), event, data: JSON.parse(data) as NumberedEvent };
}

async function watch(client: Client, at: string, asked: Asked = {}, query = ""): Promise<AsyncIterable<string>> {
  const headers = { accept: "text/event-stream", ...asked.headers };
  const { status, stream, headers: replied } = await client("GET", `${at}/events${query}`, { ...asked, headers });
  expect([status, replied["content-type"]]).toEqual([200, "text/event-stream"]);
  return stream as AsyncIterable<string>;
}

async function all(stream: AsyncIterable<string>): Promise<number[]> {
  const ids: number[] = [];
  for await (const text of stream) ids.push(parse(text).id);
  return ids;
}

const upTo = (last: number, first = 1): number[] => Array.from({ length: last - first + 1 }, (_, n) => first + n);

async function opened(client: Client): Promise<string> {
  return `/v1/sessions/${(await client("POST", "/v1/sessions", { body: { task: { start: 0, goal: 1 } } })).body.session}`;
}

describe("live events", () => {
  onEveryStore("events arrive once and in order during calls, and end with the session", async (place) => {
    const client = clientOf(place.engine(counter, { keepEnded: true }));
    // Written by another engine on the same store: the log is watched, not this process.
    const writer = clientOf(await place.replica(counter, { keepEnded: true }));
    const at = await opened(client);
    const stream = await watch(client, at);
    const seen: { id: number; event: string; data: NumberedEvent }[] = [];
    let early = 0;
    const reading = (async () => {
      for await (const text of stream) seen.push(parse(text));
    })();
    for (let round = 0; round < 4; round++) {
      await Promise.all(upTo(8).map(() => writer("POST", `${at}/call`, { body: { tool: "add", input: { by: 1 } } })));
      await sleep(60);
      if (round === 2) early = seen.length;
    }
    expect(early).toBeGreaterThan(2);
    await writer("DELETE", at);
    await reading;
    expect(seen.map(({ id }) => id)).toEqual(upTo(35));
    expect(seen.every(({ id, event, data }) => data.version === id && data.type === event)).toBe(true);
    expect(seen.at(-1)?.event).toBe("session.closed");
    const { body } = await client("GET", `${at}/events?limit=1000`);
    expect(seen.map(({ data }) => data)).toEqual(body.events);
  });

  onEveryStore("Last-Event-ID resumes with exactly the rest", async (place) => {
    const client = clientOf(place.engine(counter, { keepEnded: true }));
    const at = await opened(client);
    for (let n = 0; n < 10; n++) await client("POST", `${at}/call`, { body: { tool: "read" } });
    const gone = new AbortController();
    const first: number[] = [];
    for await (const text of await watch(client, at, { signal: gone.signal })) {
      first.push(parse(text).id);
      if (first.length === 5) gone.abort();
    }
    expect(first).toEqual(upTo(5));
    await client("POST", `${at}/verify`);
    await client("DELETE", at);
    // The header wins: a browser repeats the query of its first request.
    const headers = { "last-event-id": "5" };
    expect(await all(await watch(client, at, { headers }, "?after=2"))).toEqual(upTo(14, 6));
    expect(await all(await watch(client, at, {}, "?after=12"))).toEqual([13, 14]);
  });

  onEveryStore("a Last-Event-ID beyond the log is refused, because the store was restored", async (place) => {
    const client = clientOf(place.engine(counter, { keepEnded: true }));
    const at = await opened(client);
    const headers = { accept: "text/event-stream", "last-event-id": "3" };
    const detail = { version: 3, newest: 2 };
    const refused = { status: 404, body: { error: { code: "version_not_found", detail } } };
    expect(await client("GET", `${at}/events`, { headers })).toMatchObject(refused);
    await client("DELETE", at);
    const ended = { ...headers, "last-event-id": "4" };
    expect(await client("GET", `${at}/events`, { headers: ended })).toMatchObject({ status: 404 });
  });

  test("a follower of a session reads its events, and does not load its state while a call runs", async () => {
    const place = await open(memory);
    let loads = 0;
    const { store: inner } = place.storage;
    const store: Store = {
      ...inner,
      load(...given) {
        loads++;
        return inner.load(...given);
      },
    };
    const held = gate();
    const environment = defineEnvironment({
      name: "slow",
      tools: { wait: tool({ description: "Waits.", run: () => held.opened }) },
    });
    const sessions = createSessions({ environment, store, keepEnded: true });
    const client = clientOf(sessions);
    const { session } = await sessions.open({ task: {} });
    const calling = sessions.call(session, "wait");
    const streams = await Promise.all(upTo(5).map(() => watch(client, `/v1/sessions/${session}`)));
    const seen = streams.map(all);
    const connected = loads;
    await sleep(600);
    expect(loads - connected).toBe(0);
    held.open();
    await calling;
    await sessions.close(session);
    expect(await Promise.all(seen)).toEqual(upTo(5).map(() => upTo(4)));
    await sessions.stop();
  });

  onEveryStore("an ended session sends its remaining events, then 204, so that browsers stop asking", async (place) => {
    const client = clientOf(place.engine(counter, { keepEnded: true }));
    const at = await opened(client);
    await client("DELETE", at);
    // A verdict may follow the end.
    await client("POST", `${at}/verify`);
    expect(await all(await watch(client, at))).toEqual([1, 2, 3, 4]);
    expect(await all(await watch(client, at, { headers: { "last-event-id": "3" } }))).toEqual([4]);
    const headers = { accept: "text/event-stream", "last-event-id": "4" };
    expect(await client("GET", `${at}/events`, { headers })).toMatchObject({ status: 204, stream: undefined });
  });

  test("a stream ends when its session is deleted or the engine stops", async () => {
    const place = await open(memory);
    const forgetting = clientOf(place.engine(counter));
    const at = await opened(forgetting);
    const reading = all(await watch(forgetting, at));
    await sleep(30);
    await forgetting("DELETE", at);
    expect(await reading).toEqual([1, 2]);

    const engine = place.engine(counter);
    const client = clientOf(engine);
    const other = all(await watch(client, await opened(client)));
    await sleep(30);
    await engine.stop();
    expect(await other).toEqual([1, 2]);
  });

  test("a store failure is not taken for the end", async () => {
    const place = await open(memory);
    const client = clientOf(place.engine(counter));
    const reading = all(await watch(client, await opened(client)));
    await place.storage.store.close();
    await expect(reading).rejects.toMatchObject({ code: "store_closed" });
  });

  test("a disconnecting client ends its stream at once and leaves nothing running", async () => {
    const place = await open(memory);
    const engine = place.engine(counter);
    let looks = 0;
    const client = clientOf({ ...engine, events: (...given) => (looks++, engine.events(...given)) });
    const at = await opened(client);
    const clients = upTo(20).map(() => new AbortController());
    const timers = (): number => getActiveResourcesInfo().filter((name) => name === "Timeout").length;
    const before = timers();
    const streams = await Promise.all(clients.map(({ signal }) => watch(client, at, { signal })));
    const reading = Promise.all(streams.map(all));
    // Long enough for the polling to slow down.
    await sleep(700);
    const looked = looks;
    expect(looked / 20).toBeLessThan(8);
    for (const gone of clients) gone.abort();
    const began = performance.now();
    expect(await reading).toEqual(upTo(20).map(() => [1, 2]));
    expect(performance.now() - began).toBeLessThan(300);
    expect(timers()).toBeLessThanOrEqual(before);
    await sleep(600);
    expect(looks).toBe(looked);
  });

  test("a reader that stops reading ends the stream", async () => {
    const place = await open(memory);
    const client = clientOf(place.engine(counter));
    const stream = await watch(client, await opened(client));
    for await (const text of stream) {
      expect(parse(text).id).toBe(1);
      break;
    }
    expect(await all(stream)).toEqual([]);
  });

  test("a Last-Event-ID that is not a version is a bad request", async () => {
    const place = await open(memory);
    const client = clientOf(place.engine(counter));
    const at = await opened(client);
    for (const id of ["", "x", "-1", "1.5", "99999999999999999999"]) {
      const headers = { accept: "text/event-stream", "last-event-id": id };
      expect(await client("GET", `${at}/events`, { headers }), id).toMatchObject({
        status: 400,
        body: { error: { code: "invalid_option", detail: { field: "Last-Event-ID" } } },
      });
    }
  });
});
