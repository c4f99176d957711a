// The tiered store in several processes at once, with late or lost requests and processes that die at any point.
import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Commit } from "../../src/core/store.ts";
import { memoryStore } from "../../src/stores/memory.ts";
import { tieredStore, type TieredStore } from "../../src/stores/tiered.ts";
import { markAfter } from "../../src/stores/front/mark.ts";
import { runs } from "../runs.ts";
import { createWires, type Fate, type Process } from "./tiered-wires.ts";

const hour = 3_600_000;
/** Entries are dated by a counter, so they are always idle for longer than this. */
const idle = 4 * hour;

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date", "performance", "setInterval", "clearInterval"] }));
afterEach(() => void vi.useRealTimers());

/** Waits until everything that can proceed by itself has stopped. */
const stillness = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** The last one is never deleted: nothing of it may ever be missing. */
const names = ["a", "b", "c"];

/** A caller's action, from its first step to its last. An action without an observed end never ends. */
interface Deed {
  session: string;
  id: string;
  start: number;
  end: number;
  process: Process;
  /** Whether it is certain that it was done, or was not done. */
  isDone?: boolean;
}

interface Written {
  id: string;
  version: number;
  at: number;
}

interface Running {
  process: Process;
  store: TieredStore;
}

class World {
  readonly hot = memoryStore();
  readonly cold = memoryStore();
  readonly wires = createWires();
  readonly processes: Running[] = [];
  readonly commits: Deed[] = [];
  readonly deletes: Deed[] = [];
  readonly failures: unknown[] = [];
  now = 0;
  made = 0;

  start(at: number): void {
    const process: Process = { isAlive: true };
    const [hot, cold] = [this.wires.wired(this.hot, process), this.wires.wired(this.cold, process)];
    this.processes[at] = { process, store: tieredStore({ hot, cold, idle }) };
  }

  kill(at: number): void {
    this.processes[at]!.process.isAlive = false;
    this.start(at);
  }

  /** Starts work that advances with its requests. It may only go unanswered. */
  launch(work: () => Promise<void>): void {
    work().catch((thrown: unknown) => {
      const { code, message } = thrown as { code?: string; message: string };
      if (message !== "busy" && code !== "store_busy") this.failures.push(thrown);
    });
  }

  /** Reads a log, and checks that it has everything it must. */
  async read(store: TieredStore, session: string): Promise<{ version: number; mark: string }> {
    const start = this.now;
    const entries = (await store.read(session, 0)) ?? [];
    const log = entries.map(({ body }) => JSON.parse(body) as Written);
    const ids = log.map(({ id }) => id);
    try {
      expect(log.map(({ version }) => version)).toEqual(log.map((_, at) => at));
      expect(new Set(ids).size).toBe(ids.length);
      for (const commit of this.commits) {
        if (commit.session !== session) continue;
        const isDeleted = this.deletes.some((each) => each.session === session && each.end >= commit.start);
        if (commit.isDone === true && commit.end < start && !isDeleted) expect(ids).toContain(commit.id);
        if (commit.isDone === false) expect(ids).not.toContain(commit.id);
      }
    } catch (thrown) {
      this.failures.push(thrown);
    }
    return { version: log.length, mark: markAfter("", entries) };
  }

  /** Commits as the engine does: it resolves an unknown outcome by reading, and retries under the same key. */
  async append({ process, store }: Running, session: string, changesHeading: boolean): Promise<void> {
    const id = `e${++this.made}`;
    const deed: Deed = { session, id, process, start: this.now, end: Infinity };
    let isRefused = true;
    for (let tries = 0; tries < 3; tries++) {
      const { version, mark } = await this.read(store, session);
      const at = 1000 + ++this.made;
      const entry = { body: JSON.stringify({ id, version, at } satisfies Written), at, key: id };
      const heading = (version === 0 || changesHeading) && { heading: { environment: "shop", opened: 1 } };
      const seen = version > 0 && { seen: mark };
      if (tries === 0) this.commits.push(deed);
      try {
        const answer = await store.append({ session, version, entries: [entry], ...heading, ...seen } as Commit);
        if (answer === "conflict") continue;
        if (answer === "duplicate") expect(isRefused).toBe(false);
        Object.assign(deed, { isDone: true, end: this.now });
        return;
      } catch (thrown) {
        isRefused = false;
        if ((thrown as Error).message !== "busy" && (thrown as { code?: string }).code !== "store_busy") throw thrown;
      }
    }
    if (isRefused) deed.isDone = false;
  }

  async delete({ process, store }: Running, session: string): Promise<void> {
    const deed: Deed = { session, id: "", process, start: this.now, end: Infinity };
    this.deletes.push(deed);
    try {
      await store.delete(session);
      deed.end = this.now;
    } finally {
      deed.isDone = true;
    }
  }

  /** A failed delete, or one of a dead process, is over when none of its requests is in flight. */
  tick(): void {
    this.now++;
    for (const deed of this.deletes) {
      if (deed.end !== Infinity || this.wires.haunts(deed.process)) continue;
      if (deed.isDone || !deed.process.isAlive) deed.end = this.now;
    }
  }
}

const fate = fc.constantFrom<Fate>(
  ...Array<Fate>(16).fill("answered"),
  "carried out",
  "carried out",
  "given up",
  "lost",
);
const step = fc.record({
  verb: fc.constantFrom("append", "append", "append", "read", "sweep", "sweep", "delete", "kill", "hour"),
  process: fc.nat(2),
  session: fc.nat(2),
  changesHeading: fc.boolean(),
  /** The fates of requests before the next action starts. */
  requests: fc.array(fc.record({ pick: fc.nat(100), fate }), { maxLength: 30 }),
});

test("DURABLE, ONCE, SERIAL: three processes, late and lost requests, kills at any point: answered commits are there", async () => {
  const property = fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40, size: "max" }), async (steps) => {
    vi.clearAllTimers();
    const world = new World();
    for (const at of [0, 1, 2]) world.start(at);
    const tick = async (): Promise<void> => {
      await stillness();
      world.tick();
      vi.advanceTimersByTime(1);
    };
    for (const { verb, process, session, changesHeading, requests } of steps) {
      const running = world.processes[process]!;
      const { store } = running;
      const name = names[session]!;
      if (verb === "append") world.launch(() => world.append(running, name, changesHeading));
      else if (verb === "read") world.launch(async () => void (await world.read(store, name)));
      else if (verb === "sweep") world.launch(async () => void (await store.sweep()));
      else if (verb === "delete") world.launch(() => world.delete(running, names[session % 2]!));
      else if (verb === "kill") world.kill(process);
      else vi.advanceTimersByTime(61 * 60_000);
      await tick();
      for (const { pick, fate } of requests) {
        await world.wires.step(pick, fate);
        await tick();
      }
    }
    // Everything in flight completes, except for the first process, which stays silent.
    world.processes[0]!.process.isAlive = false;
    for (let at = 0; await world.wires.step(at, "answered"); at += 7) await tick();
    for (const { process } of world.processes) process.isAlive = false;
    vi.clearAllTimers();

    const fresh = tieredStore({ hot: world.hot, cold: world.cold, idle });
    const look = async (): Promise<string[]> => {
      const there: string[] = [];
      for (const session of names) {
        if ((await world.read(fresh, session)).version > 0) there.push(session);
        await tick();
      }
      return there;
    };
    const there = await look();
    expect(world.failures).toEqual([]);
    const idsOf = async (store: TieredStore | World["hot"], filter = {}): Promise<string[]> => {
      const ids: string[] = [];
      for await (const row of store.list(filter)) ids.push(row.session);
      return ids.toSorted();
    };
    expect(await idsOf(fresh)).toEqual(there);
    expect(await idsOf(fresh, { idleBefore: 1e15 })).toEqual(there);
    expect(await fresh.count("shop")).toBe(there.length);
    // Days later only one log of each session, and its ticket, are left.
    for (let hours = 0; hours < 60; hours++) {
      await fresh.sweep();
      vi.advanceTimersByTime(hour);
    }
    await fresh.sweep();
    expect(await look()).toEqual(there);
    expect(world.failures).toEqual([]);
    expect(await idsOf(world.hot)).toEqual(there);
    expect((await idsOf(world.cold)).length).toBe(there.length);
  });
  await fc.assert(property, { numRuns: runs(40) });
});
