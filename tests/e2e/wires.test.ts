// Every wire is the same environment: equal action lists give equal outputs, logs, states and rewards. The server is
// killed within every list, between calls and during them.
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSessions, memoryStore, type Sessions } from "holdfast";
import { sqliteStore } from "holdfast/stores/sqlite";
import { expect, onTestFinished, test, vi } from "vitest";
import { between, pick, randomStream, type Random } from "../../src/core/random.ts";
import { load } from "../../src/rollout/load.ts";
import { findPython } from "../python.ts";
import { rowsOf } from "../rollout/folder.ts";
import { leanFetch } from "./lean-fetch.ts";
import { report } from "./replicas-servers.ts";
import { startServing } from "./serve-process.ts";
import { endOf, makeList, response, type List } from "./wire-lists.ts";
import { startPython, wires, type Player, type Read, type Wires } from "./wire-players.ts";

// The clients of the wires send some 100,000 requests.
vi.stubGlobal("fetch", leanFetch);

const examples = ["blackjack", "counter", "library", "shop", "weather"];
const python = findPython();

interface Server {
  url: string;
  kills: number;
  /** Sends SIGKILL, and starts a new process at the same address. */
  kill(): Promise<void>;
  /** Resolves when the server is up. */
  up: Promise<unknown>;
}

async function startServer(file: string): Promise<Server> {
  const port = await freePort();
  const folders = examples.map((name) => `examples/${name}`);
  const start = () => startServing([...folders, "--port", `${port}`, "--log", "none", "--store", `sqlite:${file}`]);
  let serving = await start();
  const restart = async (): Promise<void> => {
    serving.process.kill("SIGKILL");
    await serving.ended;
    serving = await start();
  };
  const server: Server = {
    url: serving.url,
    kills: 0,
    up: Promise.resolve(),
    async kill() {
      server.kills++;
      await (server.up = restart());
    },
  };
  return server;
}

/**
 * Finds a free port that the system gives to no client. A client that tries to reach a server from the server's own
 * port reaches itself.
 */
async function freePort(): Promise<number> {
  for (;;) {
    const port = between(Math.random, 10_000, 30_000);
    const probe = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      probe.on("error", () => resolve(false));
      probe.listen(port, "127.0.0.1", () => resolve(true));
    });
    await new Promise((resolve) => probe.close(resolve));
    if (isFree) return port;
  }
}

/** The way in which an episode meets a kill. */
type Kind =
  /** Nothing is sent until the server is up again. */
  | "between"
  /** A call is sent just before the kill. If its connection breaks, it is sent again. */
  | "during"
  /** A call was answered before the kill, but the answer is lost. It is sent again. */
  | "unheard";

interface Meeting {
  /** The number of calls before it. */
  at: number;
  kind: Kind;
}

/** One list on one wire. */
function createEpisode(list: List, player: Player, server: Server, meetings: Meeting[]) {
  const reads: Read[] = [];
  const kills: [first: number, last: number] = [0, 0];
  let [session, reward, broken, lost] = ["", NaN, 0, 0];
  let unheard: Read | undefined;

  const send = (isHeard = true): Promise<Read> => {
    const { tool, input } = list.actions[reads.length]!;
    return player.call(tool, input, `call-${reads.length}`, isHeard);
  };

  return {
    async open(): Promise<void> {
      session = await player.open(list.task, list.seed);
      kills[0] = server.kills;
    },
    /** Plays up to a kill. */
    async reach(kill: number): Promise<void> {
      const { at, kind } = meetings[kill]!;
      unheard = undefined;
      while (reads.length < at) reads.push(await send());
      if (kind === "unheard") unheard = await send(false);
    },
    /** Makes the call that the kill may hit. Resolves after it was answered. */
    async risk(): Promise<void> {
      for (;;) {
        try {
          reads.push(await send());
          return;
        } catch (thrown) {
          if (!isBroken(thrown) || broken === 20) throw thrown;
          broken++;
          await server.up;
        }
      }
    },
    /** Repeats a call whose answer was lost. */
    async recover(): Promise<void> {
      if (unheard === undefined) return;
      const again = await send();
      expect(again, JSON.stringify(list.actions[reads.length])).toEqual(unheard);
      reads.push(again);
      lost++;
    },
    async end(): Promise<void> {
      while (reads.length < list.actions.length) reads.push(await send());
      kills[1] = server.kills;
      reward = await player.verify(response);
    },
    async played(sessions: Sessions) {
      return { reads, ...(await endOf(sessions, session)), reward };
    },
    broken: () => broken + (player.repeats?.() ?? 0),
    lost: () => lost,
    kills: () => kills[1] - kills[0],
  };
}

/** Returns whether the connection of a request broke. */
const isBroken = (thrown: unknown): boolean =>
  ["ECONNRESET", "ECONNREFUSED", "EPIPE"].includes((thrown as { code?: string }).code ?? "") ||
  (thrown as Error).message.startsWith("closed");

/** Chooses where and how a list on a wire meets each kill. */
function meetingsOf(calls: number, kills: number, random: Random): Meeting[] {
  const points = Array.from({ length: kills }, () => between(random, 0, calls)).sort((a, b) => a - b);
  return points.map((at, kill) => {
    // The call of an earlier kill was made at this point.
    const isTaken = points[kill - 1] === at;
    const kind = pick(random, ["between", "during", "unheard"] as const);
    return { at, kind: at < calls && !isTaken ? kind : "between" };
  });
}

const each = <T>(items: T[], act: (item: T) => Promise<unknown>): Promise<unknown> => Promise.all(items.map(act));

/** Counts the calls, the rewards and the repeated calls of an environment's lists. */
function createTally(name: string) {
  let [ok, failed] = [0, 0];
  const rewards: { [reward: string]: number } = {};
  const repeats: { [wire: string]: { broken: number; lost: number } } = {};
  return {
    add({ wanted: { reads, reward } }: List): void {
      const failures = reads.filter((read) => "error" in read).length;
      ok += reads.length - failures;
      failed += failures;
      rewards[reward] = (rewards[reward] ?? 0) + 1;
    },
    addRepeats(wire: string, broken: number, lost: number): void {
      const sum = (repeats[wire] ??= { broken: 0, lost: 0 });
      sum.broken += broken;
      sum.lost += lost;
    },
    counts: () => ({ name, ok, failed, rewards, repeats }),
  };
}

interface Options {
  /** The number of lists for each environment. */
  lists: number;
  /** The number of lists for each environment that are played at the same time, on every wire. */
  batch: number;
  /** The number of kills within each list. */
  kills: number;
}

/** Plays lists of all environments on all wires of one server. Returns the counts for each environment. */
async function compare({ lists, batch, kills }: Options) {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-wires-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "sessions.db");
  const server = await startServer(file);
  const played = playedWires();
  const [memory, stored] = [memoryStore(), sqliteStore({ file })];
  const environments = await Promise.all(
    examples.map(async (name) => {
      const loaded = { ...(await load(`examples/${name}`)), tasks: rowsOf(`examples/${name}/tasks.jsonl`) };
      const { environment } = loaded;
      const inProcess = createSessions({ environment, store: memory }) as Sessions;
      const sessions = createSessions({ environment, store: stored }) as Sessions;
      onTestFinished(async () => void (await Promise.all([inProcess.stop(), sessions.stop()])));
      return { name, loaded, inProcess, sessions, tally: createTally(name) };
    }),
  );
  for (let first = 0; first < lists; first += batch) {
    const random = randomStream(first, 3);
    const episodes = [];
    for (const { name, loaded, inProcess, sessions, tally } of environments) {
      for (let seed = first; seed < Math.min(first + batch, lists); seed++) {
        const list = await makeList(loaded, inProcess, seed);
        tally.add(list);
        for (const [wire, player] of Object.entries(played)) {
          const meetings = meetingsOf(list.actions.length, kills, random);
          const episode = createEpisode(list, player(`${server.url}/${name}`), server, meetings);
          episodes.push({ ...episode, name, wire, list, sessions, tally, meetings });
        }
      }
    }
    await each(episodes, (episode) => episode.open());
    for (let kill = 0; kill < kills; kill++) {
      await each(episodes, (episode) => episode.reach(kill));
      const risky = episodes.filter(({ meetings }) => meetings[kill]!.kind === "during");
      // Some of these calls are answered before the kill, and others wait for their answer.
      let left = Math.ceil((risky.length / 2) * random() ** 2);
      let killed: Promise<void> | undefined;
      await each(risky, async (episode) => {
        await episode.risk();
        if (--left === 0) killed = server.kill();
      });
      await (killed ?? server.kill());
      await each(episodes, (episode) => episode.recover());
    }
    await each(episodes, (episode) => episode.end());
    for (const { name, wire, list, sessions, tally, meetings, ...episode } of episodes) {
      const { wanted, ...given } = list;
      const about = `${name} over ${wire}: ${JSON.stringify({ ...given, meetings })}`;
      expect(await episode.played(sessions), about).toEqual(wanted);
      expect(episode.kills(), about).toBe(kills);
      tally.addRepeats(wire, episode.broken(), episode.lost());
    }
  }
  const counts = environments.map(({ tally }) => tally.counts());
  report([`${server.kills} kills`, ...counts.map((each) => JSON.stringify(each))].join("\n"));
  return counts;
}

function playedWires(): Wires {
  if (python === undefined) return wires;
  const { player, close } = startPython(python);
  onTestFinished(close);
  return { ...wires, python: player };
}

type Counts = Awaited<ReturnType<typeof compare>>;

/** Fails if the lists prove little: both kinds of result, several rewards and repeated calls must be frequent. */
function expectVariety(counts: Counts, lists: number): void {
  expect(counts.map(({ name }) => name)).toEqual(examples);
  for (const { name, ok, failed, rewards } of counts) {
    expect(ok, name).toBeGreaterThan(lists);
    expect(ok / (ok + failed), name).toBeGreaterThan(0.3);
    expect(failed / (ok + failed), name).toBeGreaterThan(0.08);
    expect(Object.keys(rewards).length, name).toBeGreaterThan(1);
    expect(rewards["1"], name).toBeGreaterThan(lists / 10);
  }
  for (const wire of wiresOf(counts)) expect(sumOf(counts, wire, "lost"), wire).toBeGreaterThan(lists / 2);
}

const wiresOf = ([first]: Counts): string[] => Object.keys(first!.repeats);

const sumOf = (counts: Counts, wire: string, what: "broken" | "lost"): number =>
  counts.reduce((sum, { repeats }) => sum + repeats[wire]![what], 0);

test("ONCE: 10 lists for each example are the same over every wire, with a kill in each", async () => {
  expectVariety(await compare({ lists: 10, batch: 10, kills: 1 }), 10);
});

test(
  "ONCE: 200 lists for each example are the same over every wire, with two kills in each",
  { tags: ["full"], timeout: 600_000 },
  async () => {
    const counts = await compare({ lists: 200, batch: 20, kills: 2 });
    expectVariety(counts, 200);
    // Kills hit calls on every wire.
    for (const wire of wiresOf(counts)) expect(sumOf(counts, wire, "broken"), wire).toBeGreaterThan(0);
  },
);

test("the Python client is one of the wires", ({ skip }) => {
  if (python === undefined) skip("there is no python3 of version 3.11 or newer");
  expect(Object.keys(playedWires())).toContain("python");
});
