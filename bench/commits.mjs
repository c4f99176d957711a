// Commits like the engine's, for benches that pass them to a store directly.
import { markAfter } from "../dist/stores/front/mark.js";

/**
 * A session in a log of its own, with what its next commit needs.
 *
 * @typedef {{ id: string, version: number, at: number, mark: string }} Log
 */

let opened = 0;
let calls = 0;

/** Logs that are not in any store yet. @param {number} count @returns {Log[]} */
export function newLogs(count) {
  // As long as real ids are.
  const next = () => `bench-${String(opened++).padStart(16, "0")}`;
  return Array.from({ length: count }, () => ({ id: next(), version: 0, at: Date.now(), mark: "" }));
}

/** The entry of a call of the counter with the id that a model gave it: 218 bytes and a key of 36. @param {Log} log */
export function nextEntry({ version, at }) {
  const call = `call_${String(calls++).padStart(24, "0")}`;
  const body = `{"type":"tool.called","at":${at},"episode":1,"tool":"add","input":{"by":1},"outcome":{"ok":true,"output":{"count":${version}}},"delta":[{"op":"replace","path":"/count","value":${version}}],"call":"${call}"}`;
  return { body, at, key: `call 1 ${call}` };
}

/**
 * Opens the session of a log: the opening and its seed, as two entries. @param {Log} log @returns
 * {import("holdfast").Commit}
 */
export function opening({ id, at }) {
  const event = `{"type":"session.opened","at":${at},"environment":"counter","labels":{},"randomness":{"seed":2350760173,"turn":0},"delta":[{"op":"replace","path":"","value":{"count":0}}]}`;
  const seed = `{"type":"session.seeded","at":${at},"task":{"start":0},"randomness":{"seed":2350760173,"turn":1},"delta":[{"op":"replace","path":"","value":{"count":0}}],"episode":1,"labels":{}}`;
  return {
    session: id,
    version: 0,
    entries: [
      { body: event, at },
      { body: seed, at },
    ],
    heading: { environment: "counter", opened: at },
  };
}

/** Opens sessions in a store. @param {import("holdfast").Store} store @param {number} count @returns {Promise<Log[]>} */
export async function openedLogs(store, count) {
  const logs = newLogs(count);
  // Some at once, because no store is meant to handle ten thousand concurrent ones.
  let next = 0;
  const openInTurn = async () => {
    for (let log = logs[next++]; log; log = logs[next++]) {
      const commit = opening(log);
      if ((await store.append(commit)) !== "ok") throw new Error(`session ${log.id} was not opened`);
      log.version = 2;
      log.mark = markAfter("", commit.entries);
    }
  };
  await Promise.all(Array.from({ length: Math.min(count, 100) }, openInTurn));
  return logs;
}

/** One commit to the store. @param {import("holdfast").Store} store @param {Log} log */
export async function commitTo(store, log) {
  const { id: session, version, mark: seen } = log;
  const entries = [nextEntry(log)];
  const mark = markAfter(seen, entries);
  const answer = await store.append({ session, version, seen, mark, entries });
  if (answer !== "ok") throw new Error(`a commit to ${session} was answered with ${answer}`);
  log.version++;
  log.mark = mark;
}

/**
 * Logs that each have one commit in flight at all times.
 *
 * @param {Log[]} logs
 * @param {number} each
 * @param {(log: Log) => Promise<unknown>} commit
 */
export function closedLoop(logs, each, commit) {
  const commitInTurn = async (/** @type {Log} */ log) => {
    for (let done = 0; done < each; done++) await commit(log);
  };
  return {
    run: async () => {
      await Promise.all(logs.map(commitInTurn));
      return logs.length * each;
    },
  };
}
