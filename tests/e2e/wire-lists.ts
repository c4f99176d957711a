// Random action lists for an environment. A list is made while it is played in process, because solutions and
// arguments depend on earlier outputs.
import type { Sessions } from "holdfast";
import { canonicalText } from "../../src/core/digest.ts";
import { isObject, setOwn, type Json } from "../../src/core/json.ts";
import { sample } from "../../src/core/json-sample.ts";
import { readRequired } from "../../src/core/json-schema.ts";
import { between, chance, pick, randomStream, type Random } from "../../src/core/random.ts";
import { pickTask, type TaskRow } from "../../src/core/rollout.ts";
import { toJsonSchema } from "../../src/core/schema.ts";
import type { Loaded } from "../../src/rollout/load.ts";
import { badInputs } from "../../src/testing/arguments.ts";
import type { Call, Solution } from "../../src/testing/environments.ts";
import { readOf, type Read } from "./wire-players.ts";

/** The result of a list: the model's view, the log, the state at the end and the reward. */
export interface Played {
  reads: Read[];
  log: string[];
  state: string;
  reward: number;
}

export interface List {
  /** Also the episode's random seed. */
  seed: number;
  task: TaskRow;
  actions: Call[];
  /** The result in process. */
  wanted: Played;
}

/** The agent's last answer. */
export const response = {
  output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "Done." }] }],
};

const unknownTool = "no_such_tool";
/** The longest solutions play twelve hands of blackjack. */
const mostActions = 40;

/** Makes a list, and plays it in process. */
export async function makeList(
  { environment, solution, tasks }: Loaded & { tasks: TaskRow[] },
  sessions: Sessions,
  seed: number,
) {
  const random = randomStream(seed + 1, 7);
  const task = pickTask(pick(random, tasks) as TaskRow);
  // Without the order of blackjack's cards, the episode's random seed decides it.
  if (chance(random, 0.5)) delete task["shuffle"];
  const values = knownValues(task);
  const solving = follow(solution as Solution, task);
  const schemas = [...environment.definitions].map(
    ([tool, { input }]) => [tool, { type: "object", ...toJsonSchema(input) }] as const,
  );

  const strict = schemas.filter(([, schema]) => readRequired(schema).size > 0);

  function bad(): Call {
    if (chance(random, 0.1)) return { tool: unknownTool, input: {} };
    const [tool, schema] = pick(random, strict.length > 0 ? strict : schemas)!;
    return {
      tool,
      input: pick(
        random,
        badInputs(schema).filter(({ input }) => isObject(input)),
      )!.input,
    };
  }

  function valid(): Call {
    const [tool, schema] = pick(random, schemas)!;
    return { tool, input: values.putInto(sample(schema, random), random) };
  }

  // Some lists win: they follow the solution to its end, with calls in between that change nothing.
  const isWinning = chance(random, 0.4);
  const count = isWinning ? mostActions : between(random, 2, 8);
  const next = (): Call | undefined => {
    if (isWinning) return chance(random, 0.2) ? bad() : solving.next();
    const drawn = random();
    return drawn < 0.2 ? bad() : drawn < 0.6 ? valid() : (solving.next() ?? valid());
  };

  const { session } = await sessions.open({ task, randomSeed: seed });
  const [actions, reads]: [Call[], Read[]] = [[], []];
  for (let action; actions.length < count && (action = next());) {
    const answer = await sessions.call(session, action.tool, action.input as object);
    actions.push(action);
    reads.push(readOf(answer));
    const output = answer.ok ? (answer.output as Json) : undefined;
    if (output !== undefined) values.add(output);
    solving.answered(action, output);
  }
  const end = await endOf(sessions, session);
  const { reward } = await sessions.verify(session, { response });
  return { seed, task, actions, wanted: { reads, ...end, reward } };
}

/** Reads a session's calls and state from its log, as texts that are equal if the values are. */
export async function endOf(sessions: Sessions, session: string): Promise<Pick<Played, "log" | "state">> {
  const log: string[] = [];
  for await (const event of sessions.events(session)) {
    if (event.type !== "tool.called") continue;
    log.push(canonicalText([event.tool, event.input, event.outcome as unknown as Json]));
  }
  return { log, state: canonicalText((await sessions.state(session)) as Json) };
}

/** A solution, call by call. It ends when one of its calls fails. */
function follow(solution: Solution, task: TaskRow) {
  const turns = solution(task as never)[Symbol.iterator]() as Iterator<Call | Call[], unknown, Json[]>;
  let [calls, outputs]: [Call[], Json[]] = [[], []];
  let isOver = false;
  return {
    next(): Call | undefined {
      if (!isOver && outputs.length === calls.length) {
        const turn = turns.next(outputs);
        if (turn.done) isOver = true;
        else [calls, outputs] = [[turn.value].flat(), []];
      }
      return isOver ? undefined : calls[outputs.length];
    },
    answered(action: Call, output: Json | undefined): void {
      if (action !== calls[outputs.length]) return;
      if (output === undefined) isOver = true;
      else outputs.push(output);
    },
  };
}

/** The values of a task and of outputs, as arguments for later calls. */
function knownValues(task: TaskRow) {
  const known = new Map<string, Json[]>();
  const texts: string[] = [];
  function add(value: Json, name = ""): void {
    if (Array.isArray(value)) for (const each of value) add(each, name.replace(/s$/, ""));
    else if (isObject(value)) for (const [field, each] of Object.entries(value)) add(each, field);
    else {
      const others = known.get(name);
      if (others) others.push(value);
      else known.set(name, [value]);
      if (typeof value === "string") texts.push(value);
    }
  }
  /** Replaces most values by known ones of the same field, or else by any known text. */
  function putInto(value: Json, random: Random, name = ""): Json {
    if (Array.isArray(value)) return value.map((each) => putInto(each, random, name.replace(/s$/, "")));
    if (isObject(value)) {
      const made = {};
      for (const [field, each] of Object.entries(value)) setOwn(made, field, putInto(each, random, field));
      return made;
    }
    const same = (known.get(name) ?? []).filter((each) => typeof each === typeof value);
    const candidates = same.length > 0 ? same : typeof value === "string" ? texts : [];
    return candidates.length > 0 && chance(random, 0.8) ? pick(random, candidates)! : value;
  }
  add(task);
  return { add, putInto };
}
