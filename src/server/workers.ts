// Runs several server processes on one port. A supervisor starts workers, which share a store. Any worker can serve any
// session.
import cluster, { type Worker } from "node:cluster";
import { createServer, type AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { stopOnSignals } from "../io/stop-on-signals.ts";
import type { Serving } from "./serve.ts";
import type { MetricsReport } from "./metrics.ts";

/**
 * A message from a worker. `url`: the worker is serving. `asking`: the worker requests its peers' reports. `about`: the
 * worker answers the supervisor.
 */
interface WorkerMessage {
  url?: string;
  asking?: number;
  about?: number;
  report?: MetricsReport;
}

/**
 * A message to a worker. `about`: the supervisor requests a report. `asking`: the peers' reports that the worker
 * requested.
 */
interface SupervisorMessage {
  about?: number;
  asking?: number;
  peers?: MetricsReport[];
}

interface SupervisorOptions {
  workers: number;
  host: string;
  port: number;
  token: string | undefined;
  announce(url: string): void;
}

/** Milliseconds before a worker that failed to start is started again. */
const restartDelay = 1_000;

/** Milliseconds that the supervisor waits for a worker's report. */
const reportTimeout = 1_000;

/** The usual reason for SIGBUS, which no program can catch. */
const busError = "a file in use was truncated, such as the -shm file of a SQLite store";

/** Starts the workers, restarts workers that die, and stops them all on a signal. */
export async function superviseWorkers({
  workers,
  host,
  port: wanted,
  token,
  announce,
}: SupervisorOptions): Promise<void> {
  // The supervisor chooses the port, so that a restarted worker listens on the same port.
  const port = wanted === 0 ? await freePort(host) : wanted;
  const alive = new Set<Worker>();
  // Workers accept connections themselves. If a connection were passed to a worker that just died, it would stay open
  // without an answer.
  cluster.schedulingPolicy = cluster.SCHED_NONE;
  let stopping = false;
  /** Workers that have announced their URL. */
  const serving = new Set<Worker>();
  /** The last report of every worker, including dead ones. */
  const reports = new Map<number, MetricsReport>();
  const answered = new Map<number, () => void>();
  let questions = 0;

  /** Starts a worker and returns its URL; undefined if it ended before it served. */
  function start(): Promise<string | undefined> {
    const worker = cluster.fork({ HOLDFAST_WORKER: JSON.stringify({ token, port }) });
    alive.add(worker);
    let listening = false;
    // The channel breaks when the worker dies. A message in transit must not crash the supervisor.
    worker.on("error", () => undefined);
    return new Promise((resolve) => {
      worker.on("message", (message: WorkerMessage) => {
        if (message.url !== undefined) {
          listening = true;
          serving.add(worker);
          resolve(message.url);
          // A worker that was just starting missed the first request to stop.
          if (stopping) worker.send("stop");
        } else if (message.asking !== undefined) void gather(worker, message.asking, message.report);
        else if (message.about !== undefined && message.report) {
          reports.set(worker.id, message.report);
          answered.get(message.about)?.();
        }
      });
      worker.on("exit", (code, signal) => {
        alive.delete(worker);
        serving.delete(worker);
        const last = reports.get(worker.id);
        if (last) reports.set(worker.id, withoutGauges(last));
        resolve(undefined);
        if (!listening || stopping) return;
        const why = signal === "SIGBUS" ? `${signal}: ${busError}` : (signal ?? code);
        process.stderr.write(`worker ${worker.process.pid} ended (${why}) and was restarted\n`);
        void keepStarting();
      });
    });
  }

  /**
   * Collects reports from all other workers and sends them to the worker that asked. For a silent or dead worker, its
   * last report is used, so that counters never decrease.
   */
  async function gather(asker: Worker, asking: number, own: MetricsReport | undefined): Promise<void> {
    if (own) reports.set(asker.id, own);
    const others = [...serving].filter((worker) => worker !== asker && worker.isConnected());
    await Promise.all(
      others.map(async (worker) => {
        const about = ++questions;
        const answer = new Promise<void>((resolve) => answered.set(about, resolve));
        worker.send({ about });
        await Promise.race([answer, delay(reportTimeout, undefined, { ref: false })]);
        answered.delete(about);
      }),
    );
    const peers = [...reports].filter(([id]) => id !== asker.id).map(([, report]) => report);
    if (asker.isConnected()) asker.send({ asking, peers });
  }

  async function keepStarting(): Promise<void> {
    if (stopping || (await start()) !== undefined) return;
    await delay(restartDelay);
    await keepStarting();
  }

  stopOnSignals({
    onStop() {
      stopping = true;
      for (const worker of alive) if (worker.isConnected()) worker.send("stop");
      const ended = [...alive].map((worker) => new Promise<number>((resolve) => worker.on("exit", resolve)));
      void Promise.all(ended).then((codes) => process.exit(codes.every((code) => code === 0) ? 0 : 1));
    },
    onSecond() {
      for (const worker of alive) worker.process.kill("SIGKILL");
    },
  });

  // The first worker starts alone, so a wrong target or store is reported once.
  const url = await start();
  if (url === undefined) {
    if (stopping) return;
    process.exit(1);
  }
  await Promise.all(Array.from({ length: workers - 1 }, () => keepStarting()));
  if (!stopping) announce(url);
}

/** Runs a worker: announces its URL, and stops on request or when the supervisor is gone. */
export async function followSupervisor(opening: Promise<Serving>): Promise<void> {
  let stopping: Promise<void> | undefined;
  let isServing = false;
  const stop = (): void => {
    // A worker that does not serve yet exits immediately, because waiting for its store may take long.
    if (!isServing) process.exit(0);
    stopping ??= opening
      .then((serving) => serving.close())
      .then(
        () => process.exit(0),
        () => process.exit(1),
      );
  };
  process.on("message", (message: "stop" | SupervisorMessage) => {
    if (message === "stop") stop();
    else if (message.about !== undefined) {
      const { about } = message;
      void opening
        .then((serving) => serving.report())
        .then((report) => process.send?.({ about, report }))
        .catch(() => undefined);
    } else if (message.asking !== undefined) answers.get(message.asking)?.(message.peers ?? []);
  });
  process.on("disconnect", stop).on("SIGTERM", stop);
  // Ignores SIGINT, which a terminal sends to the whole process group. The supervisor stops the workers.
  process.on("SIGINT", () => undefined);
  const { url } = await opening;
  isServing = true;
  process.send?.({ url });
}

const answers = new Map<number, (peers: MetricsReport[]) => void>();
let asked = 0;

/** Returns the reports of the other workers, or an empty list if they take too long. */
export async function askPeers(own: MetricsReport): Promise<MetricsReport[]> {
  const asking = ++asked;
  const answer = new Promise<MetricsReport[]>((resolve) => answers.set(asking, resolve));
  process.send?.({ asking, report: own });
  const late = delay(2 * reportTimeout, [], { ref: false });
  return Promise.race([answer, late]).finally(() => answers.delete(asking));
}

/** Removes gauges: they describe the state of a process that has ended. Counters stay valid. */
function withoutGauges(report: MetricsReport): MetricsReport {
  return report.filter((metric) => (metric as { type?: string }).type !== "gauge");
}

async function freePort(host: string): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, host, resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
