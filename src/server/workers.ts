// Several serving processes behind one port: one that supervises, and workers that share a store and know nothing of each
// other. Any of them serves any session.
import cluster, { type Worker } from "node:cluster";
import { createServer, type AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { Serving } from "./serve.ts";
import type { MetricsReport } from "./metrics.ts";

/** What a worker says: where it serves, that it wants to know what the others have counted, or what it has counted. */
interface Said {
  url?: string;
  asking?: number;
  about?: number;
  report?: MetricsReport;
}

/** What a worker hears: that it should say what it has counted, or what the others have. */
interface Heard {
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

/** How soon a worker that could not start is tried again, in milliseconds. */
const patience = 1000;

/** Starts the workers, starts again those that die, and stops them all when it is told to. */
export async function superviseWorkers({
  workers,
  host,
  port: wanted,
  token,
  announce,
}: SupervisorOptions): Promise<void> {
  // Chosen here, so that a worker that is started again listens where the others do.
  const port = wanted === 0 ? await freePort(host) : wanted;
  const alive = new Set<Worker>();
  // Workers take connections from the port themselves. Handed on by this process, one that was on its way to a worker
  // that died would stay open and never be answered.
  cluster.schedulingPolicy = cluster.SCHED_NONE;
  let stopping = false;
  /** Those that have said where they serve. */
  const serving = new Set<Worker>();
  /** The last of every worker, also of those that are no more. */
  const reports = new Map<number, MetricsReport>();
  const answered = new Map<number, () => void>();
  let questions = 0;

  /** Gives the address that the worker serves; undefined if it ended before it could. */
  function start(): Promise<string | undefined> {
    const worker = cluster.fork({ HOLDFAST_WORKER: JSON.stringify({ token, port }) });
    alive.add(worker);
    let listening = false;
    // Its channel breaks when it dies, and what was being sent to it then must not end this process.
    worker.on("error", () => undefined);
    return new Promise((resolve) => {
      worker.on("message", (said: Said) => {
        if (said.url !== undefined) {
          listening = true;
          serving.add(worker);
          resolve(said.url);
        } else if (said.asking !== undefined) void gather(worker, said.asking, said.report);
        else if (said.about !== undefined && said.report) {
          reports.set(worker.id, said.report);
          answered.get(said.about)?.();
        }
      });
      worker.on("exit", (code, signal) => {
        alive.delete(worker);
        serving.delete(worker);
        const last = reports.get(worker.id);
        if (last) reports.set(worker.id, withoutGauges(last));
        resolve(undefined);
        if (!listening || stopping) return;
        process.stderr.write(`worker ${worker.process.pid} ended (${signal ?? code}) and is started again\n`);
        void keepStarting();
      });
    });
  }

  /**
   * Has all other workers report, and tells the one that asked. Of one that is silent, or has died, the last report
   * counts: what was counted once stays counted.
   */
  async function gather(asker: Worker, asking: number, own: MetricsReport | undefined): Promise<void> {
    if (own) reports.set(asker.id, own);
    const others = [...serving].filter((worker) => worker !== asker && worker.isConnected());
    await Promise.all(
      others.map(async (worker) => {
        const about = ++questions;
        const answer = new Promise<void>((resolve) => answered.set(about, resolve));
        worker.send({ about });
        await Promise.race([answer, delay(patience, undefined, { ref: false })]);
        answered.delete(about);
      }),
    );
    const peers = [...reports].filter(([id]) => id !== asker.id).map(([, report]) => report);
    if (asker.isConnected()) asker.send({ asking, peers });
  }

  async function keepStarting(): Promise<void> {
    if (stopping || (await start()) !== undefined) return;
    await delay(patience);
    await keepStarting();
  }

  const stop = (): void => {
    if (stopping) {
      for (const worker of alive) worker.process.kill("SIGKILL");
      process.exit(130);
    }
    stopping = true;
    for (const worker of alive) if (worker.isConnected()) worker.send("stop");
    const ended = [...alive].map((worker) => new Promise<number>((resolve) => worker.on("exit", resolve)));
    void Promise.all(ended).then((codes) => process.exit(codes.every((code) => code === 0) ? 0 : 1));
  };
  process.on("SIGTERM", stop).on("SIGINT", stop);

  // The first one alone: what is wrong with the targets or the store is then said once.
  const url = await start();
  if (url === undefined) {
    if (stopping) return;
    process.exit(1);
  }
  await Promise.all(Array.from({ length: workers - 1 }, () => keepStarting()));
  if (!stopping) announce(url);
}

/** What a worker does: says when it serves, and stops when it is told to, or when nobody is left to tell it. */
export async function followSupervisor(opening: Promise<Serving>): Promise<void> {
  let stopping: Promise<void> | undefined;
  let isServing = false;
  const stop = (): void => {
    // It has nothing in hand yet, and may wait for its store for long.
    if (!isServing) process.exit(0);
    stopping ??= opening
      .then((serving) => serving.close())
      .then(
        () => process.exit(0),
        () => process.exit(1),
      );
  };
  process.on("message", (what: "stop" | Heard) => {
    if (what === "stop") stop();
    else if (what.about !== undefined) {
      const { about } = what;
      void opening
        .then((serving) => serving.report())
        .then((report) => process.send?.({ about, report }))
        .catch(() => undefined);
    } else if (what.asking !== undefined) answers.get(what.asking)?.(what.peers ?? []);
  });
  process.on("disconnect", stop).on("SIGTERM", stop);
  // A terminal sends it to every process of the group. What it means is for the supervisor to say.
  process.on("SIGINT", () => undefined);
  const { url } = await opening;
  isServing = true;
  process.send?.({ url });
}

const answers = new Map<number, (peers: MetricsReport[]) => void>();
let asked = 0;

/** What the other workers have counted, as far as they say so in time. */
export async function askPeers(own: MetricsReport): Promise<MetricsReport[]> {
  const asking = ++asked;
  const answer = new Promise<MetricsReport[]>((resolve) => answers.set(asking, resolve));
  process.send?.({ asking, report: own });
  const late = delay(2 * patience, [], { ref: false });
  return Promise.race([answer, late]).finally(() => answers.delete(asking));
}

/** What a process had in hand is gone with it; what it had counted is not. */
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
