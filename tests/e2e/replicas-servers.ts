// Several `holdfast serve` processes on one store, which can be killed and restarted.
import { startServing } from "./serve-process.ts";

export interface Replica {
  /** Changes with each start. */
  readonly url: string;
  /** Sends SIGKILL and starts a new process in its place. */
  killAndStart(): Promise<void>;
}

/** Starts them all at the same moment. They stop when the test ends. */
export const startReplicas = (store: string, count = 4): Promise<Replica[]> =>
  startEach(count, () => startServing(["examples/counter", "--port", "0", "--log", "none", "--store", store]));

/** Starts replicas in another way. */
export async function startEach(count: number, start: () => ReturnType<typeof startServing>): Promise<Replica[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      let serving = await start();
      return {
        get url() {
          return serving.url;
        },
        async killAndStart() {
          serving.process.kill("SIGKILL");
          await serving.ended;
          serving = await start();
        },
      };
    }),
  );
}

/** The sum of a counter of /metrics over replicas, or its largest value. */
export async function metricOf(
  replicas: { url: string }[],
  name: string,
  over: (values: number[]) => number = (values) => values.reduce((sum, value) => sum + value, 0),
): Promise<number> {
  const texts = await Promise.all(replicas.map(async ({ url }) => (await fetch(`${url}/metrics`)).text()));
  return over(texts.map((text) => Number(new RegExp(`^holdfast_${name} (.+)$`, "m").exec(text)?.[1] ?? 0)));
}

/** Prints a measurement in runs that are longer than the default. */
export function report(line: string): void {
  if (process.env["HOLDFAST_RUNS"] !== undefined) console.log(line);
}
