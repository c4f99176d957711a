// runGymChecks(): checks a running gym server for the properties of a stateful environment, over HTTP only.
import assert from "node:assert/strict";
import { messageOf } from "../core/errors.ts";
import { randomSeedField } from "../core/rollout.ts";
import { play, randomSeed, type Call, type Solution } from "./environments.ts";
import { attackChecks } from "./gym-checks/attack-checks.ts";
import { createGymClient, type ClientOptions, type GymClient, type GymReply } from "./gym-checks/client.ts";
import { basicChecks, stateChecks } from "./gym-checks/state-checks.ts";
import { inText, make, showsState, type GymCheck, type GymTarget, type Trial } from "./gym-checks/trial.ts";

export interface Checked {
  what: string;
  result: "pass" | "fail" | "skipped";
  /** The failure, or the reason for skipping. */
  message?: string;
  why: string;
  /** Commands that reproduce the failure. */
  reproduce?: string[];
}

/** Returns the task with a random seed. Holdfast's servers use the seed, and other servers ignore it. */
const seedBody = ({ task }: Pick<GymTarget, "task">): GymTarget["task"] => ({ ...task, [randomSeedField]: randomSeed });

/** Runs a solution and returns its calls in order. */
export async function playSolution(target: Pick<GymTarget, "url" | "task">, solution: Solution): Promise<Call[]> {
  const client = createGymClient({ url: target.url, name: "a", commands: [] });
  await client.post("/seed_session", seedBody(target));
  const calls: Call[] = [];
  await play(solution, target.task, async (call) => {
    calls.push(call);
    return (await client.post(`/${call.tool}`, call.input)).body;
  });
  await closeAll([client]);
  return calls;
}

/** Closes the sessions of clients, if the server can. */
async function closeAll(clients: GymClient[]): Promise<void> {
  for (let at = 0; at < clients.length; at += 20) {
    const closing = clients.slice(at, at + 20).map((client) => client.post("/close_session", {}));
    await Promise.allSettled(closing);
  }
}

/** Runs every check, and closes the sessions. Rejects only if the server is unreachable or cannot be seeded. */
export async function runGymChecks(target: GymTarget): Promise<Checked[]> {
  let commands: string[] = [];
  let clients = 0;
  const made: GymClient[] = [];
  const client = (options: ClientOptions = {}): GymClient => {
    const name = String.fromCharCode(97 + (clients++ % 26));
    const created = createGymClient({ ...options, url: target.url, name, commands });
    made.push(created);
    return created;
  };
  const seed = (of: GymClient, path = "/seed_session"): Promise<GymReply> => of.post(path, seedBody(target));
  const seeded = async (options?: ClientOptions): Promise<GymClient> => {
    const fresh = client(options);
    const reply = await seed(fresh);
    assert.ok(reply.status < 300, `the seed request returned ${inText(reply)}`);
    const { failure_reason: failure } = Object(reply.body) as { failure_reason?: unknown };
    assert.ok(failure === undefined, `the seed failed: ${String(failure)}`);
    return fresh;
  };
  /** Makes the calls in a new session, and then the same calls again. */
  const twice = async (calls: Call[]): Promise<Pick<Trial, "first" | "second">> => {
    const client = await seeded();
    return { first: await make(client, calls), second: await make(client, calls) };
  };
  let calls = target.calls;
  let answers = await twice(calls);
  for (const others of target.others ?? []) {
    if (showsState(answers)) break;
    const found = await twice(others);
    if (showsState(found)) [calls, answers] = [others, found];
  }
  const { bestReward = 1 } = target;
  const trial: Trial = { ...target, calls, bestReward, client, seed, seeded, ...answers };

  async function run({ what, why, run: attempt }: GymCheck): Promise<Checked> {
    commands = [];
    clients = 0;
    try {
      const message = await attempt(trial);
      return message ? { what, result: "skipped", message, why } : { what, result: "pass", why };
    } catch (thrown) {
      // Keep the first command, which seeds, and the last commands, which lead to the failure.
      const reproduce = commands.length > 12 ? [...commands.slice(0, 1), "# …", ...commands.slice(-10)] : [...commands];
      return { what, result: "fail", message: messageOf(thrown), why, reproduce };
    }
  }

  const results: Checked[] = [];
  let varies: string | undefined;
  for (const check of [...basicChecks, ...stateChecks, ...attackChecks]) {
    const { what, why, compares = false } = check;
    const message = `the answers cannot be compared, because this check failed: ${varies}`;
    const isSkipped = compares && varies !== undefined;
    const checked: Checked = isSkipped ? { what, result: "skipped", message, why } : await run(check);
    if (checked.result === "fail" && basicChecks.includes(check)) varies = what;
    results.push(checked);
  }
  await closeAll(made);
  return results;
}
