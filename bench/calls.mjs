// Calls per second in process: on memory and on SQLite, one session and 1,000, and beside a bare handler.
import { createSessions } from "holdfast";
import { add, counter } from "./counter.mjs";
import { interleave } from "./measure.mjs";
import { withStore } from "./open-store.mjs";
import { costRow, rateRow } from "./table.mjs";

const busy = 1000;

/** @param {import("./table.mjs").Options} options @returns {Promise<import("./table.mjs").Result>} */
export function run({ quick }) {
  // Power-safe commits wait for the disk: their samples are smaller, or one session would take all of the time.
  const size = quick ? { one: 1000, power: 50, each: 3, rounds: 7 } : { one: 5000, power: 300, each: 10, rounds: 25 };
  return withStore("memory", (memory) =>
    withStore("SQLite process", (processStore) =>
      withStore("SQLite power", async (power) => {
        const measured = await interleave(
          {
            bare: bareHandler(size.one),
            memoryOne: await closedLoop(memory, 1, size.one),
            processOne: await closedLoop(processStore, 1, size.one),
            powerOne: await closedLoop(power, 1, size.power),
            memoryBusy: await closedLoop(memory, busy, size.each),
            processBusy: await closedLoop(processStore, busy, size.each),
            powerBusy: await closedLoop(power, busy, size.each),
          },
          size,
        );
        const one = { to: "memory, 1 session", reference: measured.memoryOne };
        const many = { to: "memory, 1,000 sessions", reference: measured.memoryBusy };
        return {
          rows: [
            costRow("the bare handler and JSON.stringify of its event", measured.bare),
            costRow("a call on memory, 1 session", measured.memoryOne, {
              to: "the bare handler",
              reference: measured.bare,
              bar: { atMost: 15 },
            }),
            rateRow("memory, 1 session", measured.memoryOne),
            rateRow("SQLite process, 1 session", measured.processOne, one),
            rateRow("SQLite power, 1 session", measured.powerOne, one),
            rateRow("memory, 1,000 sessions", measured.memoryBusy),
            rateRow("SQLite process, 1,000 sessions", measured.processBusy, { ...many, bar: { atLeast: 0.35 } }),
            // Memory is slower with 1,000 sessions than with one, so the same load is the easier reference.
            rateRow("the same, to memory at its fastest", measured.processBusy, one),
            rateRow("SQLite power, 1,000 sessions", measured.powerBusy, many),
          ],
        };
      }),
    ),
  );
}

/**
 * Sessions that each have one call in flight at all times.
 *
 * @param {import("holdfast").Store} store
 * @param {number} count
 * @param {number} each
 */
async function closedLoop(store, count, each) {
  const sessions = createSessions({ environment: counter, store });
  /** @type {string[]} */
  const ids = [];
  while (ids.length < count) ids.push((await sessions.open({ task: { start: 0 } })).session);
  const callInTurn = async (/** @type {string} */ id) => {
    for (let call = 0; call < each; call++) await sessions.call(id, "add", { by: 1 });
  };
  return {
    run: async () => {
      await Promise.all(ids.map(callInTurn));
      return count * each;
    },
  };
}

/** The unavoidable work of a call: the change itself, and the text of its event. @param {number} count */
function bareHandler(count) {
  const state = { count: 0 };
  let written = 0;
  return {
    run: () => {
      for (let call = 0; call < count; call++) {
        const input = { by: 1 };
        const output = add({ state }, input);
        const event = {
          type: "tool.called",
          at: Date.now(),
          episode: 1,
          tool: "add",
          input,
          outcome: { ok: true, output },
          delta: [{ op: "replace", path: "/count", value: state.count }],
        };
        written += JSON.stringify(event).length;
      }
      if (written === 0) throw new Error("nothing was written");
      return count;
    },
  };
}
