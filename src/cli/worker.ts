// holdfast worker: runs the rollouts that collections have put into a queue.
import { Option, type Command } from "commander";
import { duration, whole } from "./flags.ts";
import { requiredOption } from "./help.ts";
import { endProcess } from "../telemetry/process.ts";
import { startQueueWorker } from "../queue/worker.ts";
import { createEventReports } from "../queue/event-reports.ts";
import { stopOnSignals } from "../io/stop-on-signals.ts";
import { plainLine, print } from "../io/plain.ts";
import { queueAddress } from "../queue/connection.ts";
import { createAlone } from "../queue/alone.ts";
import { createCollections } from "../queue/collections.ts";
import { supervised, superviseQueueWorkers } from "../queue/supervise.ts";
import { startWatchdog } from "../io/watchdog.ts";

const example = `
Examples:
  $ npx holdfast worker --queue redis://127.0.0.1:6379
  $ npx holdfast worker --queue redis://127.0.0.1:6379 --concurrency 200
  $ npx holdfast worker --queue redis://127.0.0.1:6379 --workers 4

Start any number of workers on any number of machines. Start each in a folder
where the environment has the same path as for the collector. If a worker stops
or dies, another one continues its rollouts. Ctrl-C returns unfinished rollouts
to the queue.`;

export function add(program: Command): void {
  program
    .command("worker")
    .description("Run the rollouts that `holdfast collect --queue` and `holdfast serve --queue` put into a queue.")
    .addOption(requiredOption("--queue <url>", "rollout queue: redis://HOST"))
    .option("--concurrency <number>", "number of concurrent episodes", whole(1, 100_000), 32)
    .option("--workers <number>", "number of worker processes; a process that dies is restarted", whole(1, 1024))
    .option("--store <url>", "session store URL, if this worker needs a different URL than the collector")
    .option("--allow-model <url...>", "model URLs that rollout requests may use, in addition to URLs of this machine")
    .option("--max-crashes <number>", "number of process crashes after which a rollout fails", whole(1, 100), 3)
    .addOption(
      new Option("--max-blocked <duration>", "how long environment or agent code may block a worker process")
        .argParser(duration)
        .default(10_000, "10s"),
    )
    .option("--json", "print events as JSON lines")
    .addHelpText("after", example)
    .action(async (flags: Flags) => {
      await runWorker(flags);
      await endProcess(0);
    });
}

interface Flags {
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

/** Milliseconds to finish rollouts after the signal to stop: enough for short rollouts. */
const grace = 2000;
/** Milliseconds for stores to close. */
const closing = 2000;

/** Runs one worker, or supervises several worker processes, until it is stopped. */
async function runWorker(flags: Flags): Promise<void> {
  const { queue, store, concurrency, maxCrashes, maxBlocked, json = false, workers } = flags;
  const say = (text: string): void => {
    if (json) write({ type: "said", text });
    // Control characters are escaped, because any program can write to the queue.
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
  const report = createEventReports(say);
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
      else report(event);
    },
  });
  const text =
    `worker ${worker.name} stops: the code of an environment or agent blocked it for ${maxBlocked / 1000} s. ` +
    "Other workers continue its rollouts. Restart it, use --workers to restart it automatically, or raise --max-blocked";
  const stopped = new Promise<void>((resolve) => {
    // A terminal sends SIGINT to every process. A supervised worker ignores it, and stops when its supervisor does.
    if (isSupervised) process.on("disconnect", resolve).on("SIGINT", () => undefined);
    stopOnSignals({
      ...(isSupervised && { names: ["SIGTERM"] }),
      onStop() {
        say("stopping; unfinished rollouts return to the queue (press Ctrl-C again to stop immediately)");
        resolve();
      },
    });
  });
  startWatchdog({
    maxBlocked,
    message: { text: json ? JSON.stringify({ type: "said", text }) : text, to: json ? 1 : 2 },
  });
  if (json) write({ type: "started", worker: worker.name, queue: address.shown, concurrency });
  else say(`worker ${worker.name} runs rollouts from ${address.shown}, ${concurrency} at a time`);
  if (isSupervised) process.send?.("started");
  await stopped;
  await worker.stop(grace);
  await Promise.race([collections.close(), new Promise((resolve) => setTimeout(resolve, closing).unref())]);
  if (json) write({ type: "ended", ...counts });
  else say(`worker ${worker.name} stopped: ${countsText(counts)}`);
}

const countsText = (counts: Record<string, number>): string =>
  Object.entries(counts)
    .filter(([type, count]) => count > 0 || type === "played")
    .map(([type, count]) => `${count} ${type}`)
    .join(", ");

const write = (event: object): void => print(JSON.stringify(event));
