// How many bytes of heap an idle session takes on the memory store, beyond the text of its events and its state.
import { createSessions, memoryStore } from "holdfast";
import { counter } from "./counter.mjs";
import { collect } from "./measure.mjs";
import { judged } from "./table.mjs";

const calls = 3;

/** @param {import("./table.mjs").Options} options @returns {Promise<import("./table.mjs").Result>} */
export async function run({ quick, progress }) {
  const count = quick ? 10_000 : 50_000;
  // One round is not measured: compiled and cached code is not part of a session.
  for (const cached of [true, false]) await held(() => opened(500, cached, true));

  progress(`${count} sessions, cached`);
  const hot = await held(() => opened(count, true, false));
  progress(`${count} sessions, evicted`);
  const cold = await held(() => opened(count, false, false));
  progress(`${count} sessions with call ids`);
  const hotKeys = await held(() => opened(count, true, true));
  const coldKeys = await held(() => opened(count, false, true));
  progress("the same data in plain arrays");
  const events = await held(() => plain(count, false, false));
  const eventsAndState = await held(() => plain(count, true, false));
  const eventsKeys = await held(() => plain(count, false, true));
  const eventsAndStateKeys = await held(() => plain(count, true, true));

  const each = (/** @type {number} */ bytes) => bytes / count;
  const row = (/** @type {string} */ what, /** @type {number} */ bytes, /** @type {number} */ own) =>
    judged({ what, value: each(bytes - own), unit: "bytes" }, { atMost: 1024 });
  return {
    rows: [
      { what: `its events: a seed and ${calls} calls`, value: each(events), unit: "bytes" },
      { what: "its events and its state", value: each(eventsAndState), unit: "bytes" },
      row("beyond them, in the cache", hot, eventsAndState),
      row("beyond its events, evicted from the cache", cold, events),
      row("in the cache, calls with ids", hotKeys, eventsAndStateKeys),
      row("evicted, calls with ids", coldKeys, eventsKeys),
    ],
    notes: [`${count.toLocaleString("en")} sessions. "Its own" is what an array of the same texts and objects takes.`],
  };
}

/** The bytes of heap held by the result of `make`. @param {() => Promise<unknown>} make */
async function held(make) {
  const before = await heap();
  const made = await make();
  const after = await heap();
  // Used after the measurement, so that it is alive during it.
  if (made === undefined) throw new Error("nothing was made");
  return after - before;
}

async function heap() {
  // Twice, with a turn of the event loop between: finalizers and microtasks release more.
  collect();
  await new Promise((resolve) => setTimeout(resolve, 20));
  collect();
  return process.memoryUsage().heapUsed;
}

/** @param {number} count @param {boolean} cached @param {boolean} ids */
async function opened(count, cached, ids) {
  const store = memoryStore();
  const limits = cached ? { sessions: Infinity, bytes: Infinity } : { sessions: 0 };
  const sessions = createSessions({ environment: counter, store, cache: limits });
  for (let index = 0; index < count; index++) {
    const { session } = await sessions.open({ task: { start: index } });
    for (let call = 0; call < calls; call++) {
      await sessions.call(session, "add", { by: 1 }, ids ? { call: callId(index, call) } : {});
    }
  }
  return { store, sessions };
}

/** The same data with nothing around it. @param {number} count @param {boolean} withState @param {boolean} ids */
async function plain(count, withState, ids) {
  const sessions = createSessions({ environment: counter, store: memoryStore() });
  const { session } = await sessions.open({ task: { start: 0 } });
  for (let call = 0; call < calls; call++) {
    await sessions.call(session, "add", { by: 1 }, ids ? { call: callId(0, call) } : {});
  }
  /** @type {unknown[]} */
  const events = [];
  for await (const { version: _, ...event } of sessions.events(session)) events.push(event);
  return Array.from({ length: count }, (_, start) => {
    const bodies = events.map((event) => flat(JSON.stringify(event)));
    return withState ? { bodies, state: { count: start } } : bodies;
  });
}

/**
 * V8 returns the text of JSON.stringify as a tree of pieces, which takes half as much again.
 * It becomes one piece when it is read.
 * @param {string} text
 */
function flat(text) {
  text.charCodeAt(0);
  return text;
}

/** As long as those of a model. @param {number} session @param {number} call */
function callId(session, call) {
  return `call_${String(session * calls + call).padStart(20, "0")}`;
}
