// Streams from the server: lines, server-sent events, and a log followed over broken connections.
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { HoldfastError } from "../../src/core/errors.ts";
import type { NumberedEvent } from "../../src/core/event.ts";
import { readLines } from "../../src/client/lines.ts";
import { followStream, readMessages, type Connection } from "../../src/client/sent-events.ts";

/** A body that arrives in pieces of `size` bytes. */
function bodyOf(text: string, size = 1000): ReadableStream<Uint8Array> {
  const bytes = new TextEncoder().encode(text);
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close();
      controller.enqueue(bytes.slice(at, at + size));
      at += size;
    },
  });
}

async function all<T>(given: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of given) found.push(one);
  return found;
}

test("lines are the same for every split of the bytes", async () => {
  const line = fc.string({ unit: "grapheme" }).map((text) => text.replace(/[\r\n]/g, ""));
  const given = fc.array(line.filter((text) => text !== ""));
  await fc.assert(
    fc.asyncProperty(given, fc.integer({ min: 1, max: 7 }), fc.boolean(), async (lines, size, isEnded) => {
      const text = lines.join("\r\n") + (isEnded && lines.length > 0 ? "\n" : "");
      expect(await all(readLines(bodyOf(text, size)))).toEqual(lines);
    }),
  );
});

test("cancels the body when the reader stops", async () => {
  const cancelled = vi.fn();
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new TextEncoder().encode("more\n")),
    cancel: cancelled,
  });
  for await (const line of readLines(body)) {
    expect(line).toBe("more");
    break;
  }
  expect(cancelled).toHaveBeenCalled();
});

test("messages have their kind and all data lines; comments and truncated messages are dropped", async () => {
  const text = ': hello\n\nevent: partial\ndata: {"a":\ndata: 1}\n\nid: 7\ndata:x\n\nevent: done\ndata: {"cut';
  for (const size of [1, 5, 1000]) {
    expect((await all(readMessages(bodyOf(text, size)))).flat()).toEqual([
      { event: "partial", data: '{"a":\n1}' },
      { event: "message", data: "x" },
    ]);
  }
});

const event = (version: number): NumberedEvent => ({ version, type: "session.closed", at: 0, reason: "closed" });
const sent = (...versions: number[]): string =>
  versions.map((version) => `id: ${version}\ndata: ${JSON.stringify(event(version))}\n\n`).join("");

/** Follows a session whose server gives these answers in turn, and returns the calls it received. */
async function followed(answers: (string | Error | undefined)[], after = 0) {
  vi.useFakeTimers();
  try {
    const asked: number[] = [];
    const taken: number[][] = [];
    const states: Connection[] = [];
    const stop = new AbortController();
    const connect = async (last: number): Promise<ReadableStream<Uint8Array> | undefined> => {
      asked.push(last);
      const answer = answers.shift();
      if (answer instanceof Error) throw answer;
      return answer === undefined ? undefined : bodyOf(answer);
    };
    const options = { after, signal: stop.signal, onConnection: (state: Connection) => states.push(state) };
    const following = all(followStream(connect, options));
    await Promise.all([following.catch(() => undefined), vi.runAllTimersAsync()]);
    for (const events of await following) taken.push(events.map(({ version }) => version));
    return { asked, taken, states };
  } finally {
    vi.useRealTimers();
  }
}

test("a lost connection resumes after the last event and delivers no event twice", async () => {
  const lost = new HoldfastError("server_failed", "gone");
  const { asked, taken, states } = await followed([sent(1, 2), lost, lost, sent(2, 3, 4), undefined]);
  expect(asked).toEqual([0, 2, 2, 2, 4]);
  expect(taken).toEqual([
    [1, 2],
    [3, 4],
  ]);
  expect(states).toEqual(["connecting", "open", "lost", "lost", "open", "ended"]);
});

test("an ended session is not reported as lost", async () => {
  expect((await followed([sent(5, 6), undefined], 4)).states).toEqual(["connecting", "open", "ended"]);
});

test("a session deleted by the store has ended", async () => {
  const { states } = await followed([sent(1), new HoldfastError("session_not_found", "no such session")]);
  expect(states).toEqual(["connecting", "open", "ended"]);
});

test("a log that was restored to before the last event is an error", async () => {
  const restored = new HoldfastError("version_not_found", "session s has only 2 events, so none come after event 4");
  await expect(followed([sent(1), restored])).rejects.toBe(restored);
});

test("a refusal that every retry would get is an error", async () => {
  const refused = new HoldfastError("unauthorized", "the token is wrong");
  await expect(followed([sent(1), refused])).rejects.toBe(refused);
});

test("an aborted follower receives nothing more", async () => {
  const stop = new AbortController();
  const states: Connection[] = [];
  const connect = (): Promise<ReadableStream<Uint8Array>> => Promise.resolve(bodyOf(sent(1) + sent(2), 70));
  const options = { signal: stop.signal, onConnection: (state: Connection) => states.push(state) };
  let taken = 0;
  for await (const _ of followStream(connect, options)) {
    taken++;
    stop.abort();
  }
  expect(taken).toBe(1);
  expect(states).toEqual(["connecting", "open"]);
});
