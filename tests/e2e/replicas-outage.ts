// Watches replicas while a store is away: their answers, their readiness, and their recovery.
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { expectExact, openSessions, startLoad } from "./replicas-load.ts";
import { metricOf, report, type Replica } from "./replicas-servers.ts";

export interface Outage {
  name: string;
  begin(): Promise<unknown> | void;
  end(): Promise<unknown> | void;
  /** Milliseconds between the two. */
  lasts: number;
  /** Whether /readyz must have failed. */
  isNoticed: boolean;
}

/** The longest time a call may stay unanswered, in milliseconds. */
const longestAnswer = 6000;

/** Causes outages one after the other while clients run. */
export async function throughOutages(replicas: Replica[], outages: Outage[], clients = 48): Promise<void> {
  const sessions = await openSessions(replicas, 25);
  const loads = [];
  for (const { name, begin, end, lasts, isNoticed } of outages) {
    // One session that half of the clients want, and others.
    const [hot, ...others] = sessions as [string, ...string[]];
    const half = clients / 2;
    const both = [
      startLoad({ replicas, sessions: [hot], clients: half, cutEvery: 10 }),
      startLoad({ replicas, sessions: others, clients: half, cutEvery: 10 }),
    ];
    loads.push(...both);
    const failed = Promise.race(both.map(({ done }) => done)).then(() => expect.fail("the load has ended"));
    failed.catch(() => undefined);
    const answered = (): number => both.reduce((sum, load) => sum + load.answered(), 0);
    const until = async (isSo: () => boolean): Promise<void> => {
      while (!isSo()) await Promise.race([sleep(5), failed]);
    };
    await until(() => answered() > 200);
    const probes = replicas.map(probing);

    await begin();
    await Promise.race([sleep(lasts), failed]);
    const before = answered();
    const healed = performance.now();
    await end();
    await until(() => answered() >= before + clients);
    const recovered = performance.now() - healed;
    await until(() => probes.every(({ ready }) => ready()));
    const ready = performance.now() - healed;
    const seen = await Promise.all(probes.map((probe) => probe.stop()));
    await Promise.all(both.map((load) => load.stop()));

    expect(seen.flatMap(({ unhealthy }) => unhealthy)).toEqual([]);
    if (isNoticed) expect(seen.every(({ wasUnready }) => wasUnready)).toBe(true);
    const longest = new Map<number, number>();
    for (const [status, ms] of both.flatMap((load) => [...load.longest])) {
      longest.set(status, Math.max(longest.get(status) ?? 0, Math.round(ms)));
    }
    for (const [status, ms] of longest) expect(ms, `${name}: the longest ${status}`).toBeLessThan(longestAnswer);
    const troubles = both.map((load) => JSON.stringify(Object.fromEntries(load.troubles)));
    const times = JSON.stringify(Object.fromEntries(longest));
    report(
      `${name}: recovered after ${Math.round(recovered)} ms, ready after ${Math.round(ready)} ms, longest ${times}, ${troubles.join(" ")}`,
    );
  }
  const total = loads.reduce((sum, load) => sum + load.answered(), 0);
  expect(await expectExact(replicas, sessions, ...loads)).toBe(total);
  // Only the request that asks.
  expect(await metricOf(replicas, "requests_inflight", (values) => Math.max(...values))).toBe(1);
}

/** Polls the health of a replica continuously. */
function probing({ url }: Replica) {
  const unhealthy: unknown[] = [];
  let wasUnready = false;
  let last = 0;
  const asking = { goesOn: true };
  const statusOf = (path: string): Promise<number> => fetch(url + path).then(({ status }) => status);
  const healthy = async (): Promise<void> => {
    while (asking.goesOn) {
      const began = performance.now();
      const status = await statusOf("/healthz").catch(String);
      const ms = performance.now() - began;
      if (status !== 200 || ms > 5000) unhealthy.push([status, ms]);
      await sleep(50);
    }
  };
  const ready = async (): Promise<void> => {
    while (asking.goesOn) {
      last = await statusOf("/readyz");
      expect([200, 503]).toContain(last);
      if (last === 503) wasUnready = true;
      await sleep(20);
    }
  };
  const done = Promise.all([healthy(), ready()]);
  done.catch(() => undefined);
  return {
    ready: () => last === 200,
    async stop() {
      asking.goesOn = false;
      await done;
      return { unhealthy, wasUnready };
    },
  };
}
