// Runs a worker: plays rollouts from a queue until it is stopped, and reports.
import { startQueueWorker, type WorkerEvent } from "../../queue/worker.ts";
import { stopOnSignals } from "../../io/stop-on-signals.ts";
import { plainLine, print } from "../plain.ts";
import { queueAddress } from "../../queue/connection.ts";
import { createAlone } from "../../queue/alone.ts";
import { createCollections } from "../../queue/collections.ts";
import { supervised, superviseQueueWorkers } from "../../queue/supervise.ts";
import { startWatchdog } from "../../io/watchdog.ts";

export interface WorkerFlags {
  queue: string;
  store?: string;
  allowModel?: string[];
  concurrency: number;
  maxCrashes: number;
  maxBlocked: number;
  json?: boolean;
  /** Number of processes to supervise. If not set, this process is the worker. */
  workers?: number;
}

/** Milliseconds to finish rollouts after the signal to stop. Quick ones end in that time. */
const grace = 2000;
/** Milliseconds for stores to close. */
const closing = 2000;
/** Milliseconds between two equal complaints. */
const sayEvery = 30_000;

/** Plays until it is stopped, or runs several processes that do. */
export async function runWorker(flags: WorkerFlags): Promise<void> {
  const { queue, store, concurrency, maxCrashes, maxBlocked, json = false, workers } = flags;
  const say = (text: string): void => {
    if (json) write({ type: "said", text });
    // Anyone may have put text into the queue.
    else process.stderr.write(`${plainLine(text)}\n`);
  };
  const isSupervised = process.env[supervised] !== undefined;
  if (workers !== undefined && !isSupervised) {
    const [, script = "", ...args] = process.argv;
    return superviseQueueWorkers({ workers, script, args, say });
  }
  const address = queueAddress(queue);
  const place = { queue, store, folder: process.cwd(), models: flags.allowModel };
  const collections = createCollections({ ...place, concurrency });
  const counts = { played: 0, failed: 0, refused: 0, returned: 0, lost: 0, crashed: 0 };
  const complain = createComplaints(say);
  const worker = await startQueueWorker({
    address,
    concurrency,
    openPlayer: collections.openPlayer,
    openAlone: createAlone({ ...place, maxBlocked }),
    readCut: collections.readCut,
    maxCrashes,
    say,
    onEvent(event) {
      counts[event.type]++;
      if (json) write(event);
      else complain(event);
    },
  });
  const text =
    `worker ${worker.name} ends: code of an environment or an agent has blocked it for ${maxBlocked / 1000} s; ` +
    "other workers continue its rollouts; start it again, run it with --workers, or raise --max-blocked";
  const stopped = new Promise<void>((resolve) => {
    // A terminal sends SIGINT to every process. The supervisor decides what it means, and the worker does not outlive
    // it.
    if (isSupervised) process.on("disconnect", resolve).on("SIGINT", () => undefined);
    stopOnSignals({
      ...(isSupervised && { names: ["SIGTERM"] }),
      onStop() {
        say("stopping; unfinished rollouts go back into the queue (press Ctrl-C again to end at once)");
        resolve();
      },
    });
  });
  startWatchdog({
    maxBlocked,
    message: { text: json ? JSON.stringify({ type: "said", text }) : text, to: json ? 1 : 2 },
  });
  if (json) write({ type: "started", worker: worker.name, queue: address.shown, concurrency });
  else say(`worker ${worker.name} plays the rollouts of ${address.shown}, ${concurrency} at once`);
  if (isSupervised) process.send?.("started");
  await stopped;
  await worker.stop(grace);
  await Promise.race([collections.close(), new Promise((resolve) => setTimeout(resolve, closing).unref())]);
  if (json) write({ type: "ended", ...counts });
  else say(`worker ${worker.name} ends: ${countsText(counts)}`);
}

/** Reports refused and failed rollouts. Equal reports are rate-limited and counted. */
function createComplaints(say: (text: string) => void): (event: WorkerEvent) => void {
  const told = new Map<string, { at: number; times: number }>();
  return ({ type, collection, reason = "the worker was silent for too long, and another one continues it" }) => {
    if (type === "played") return;
    // Compared by their start, because the rest may differ each time.
    const key = `${type} ${collection} ${reason.slice(0, 40)}`;
    const before = told.get(key) ?? { at: -Infinity, times: 0 };
    before.times++;
    if (performance.now() - before.at >= sayEvery) {
      const what = `${type}: a rollout of ${collection}: ${reason}`;
      say(before.times === 1 ? what : `${what} (${before.times} times)`);
      before.at = performance.now();
    }
    if (told.size >= mostTold) told.clear();
    told.set(key, before);
  };
}

const mostTold = 1000;

const countsText = (counts: Record<string, number>): string =>
  Object.entries(counts)
    .filter(([type, count]) => count > 0 || type === "played")
    .map(([type, count]) => `${count} ${type}`)
    .join(", ");

const write = (event: object): void => print(JSON.stringify(event));
