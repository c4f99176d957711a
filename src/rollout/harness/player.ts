// createHarnessPlayer(): plays an episode with a harness: an external program with its own loop and prompts.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ellipsis } from "../../core/ellipsis.ts";
import { HoldfastError } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import { isFunctionCall, isMessage, toText, type Content, type Model } from "../../core/model.ts";
import { derivedId } from "../../agent/episodes.ts";
import { bareNames } from "../../core/bare-names.ts";
import { addExchange, type ModelLimits, type ModelTotals } from "../../core/model-exchange.ts";
import { exchangesIn, modelLines, type Exchange, type ModelLines } from "../../core/model-lines.ts";
import type { Play, Played, Rollout, RolloutFailure, TaskRow } from "../../core/rollout.ts";
import type { Sessions } from "../../core/sessions.ts";
import type { Store } from "../../core/store.ts";
import { unlessAborted } from "../../io/abort.ts";
import { orCancelled } from "../../models/local-response.ts";
import { limitReached } from "../../session/ask-model.ts";
import { readEvents } from "../episode-log.ts";
import { createDeadline } from "../play/deadline.ts";
import { environmentHost } from "../play/environment-host.ts";
import { failureFromError } from "../play/failure.ts";
import { firstMessage, readSettings } from "../play/player.ts";
import { toolNamesIn } from "../task-sets.ts";
import { describeTask, prepareHarness, type HarnessTask } from "./launch.ts";
import { runHarness, type HarnessEnd } from "./process.ts";
import type { HarnessModel, HarnessServer, RunningServer } from "./server.ts";
import { errorsInCalls, harnessFields } from "./transcript.ts";
import { watchedSessions, type Watched } from "./watch.ts";

export interface HarnessPlayerOptions {
  /** The name of a built-in harness, or a command. */
  harness: string;
  server: HarnessServer;
  episodes: Sessions;
  store: Store;
  modelFor(rollout: Rollout): Model;
  /** Maximum number of model answers in an episode. Default 100. */
  maxSteps?: number | undefined;
  /** Limits on the tokens and the cost of an episode. Default: none. */
  limits?: Pick<ModelLimits, "tokens" | "cost"> | undefined;
  /** Time limit of an episode in milliseconds. */
  timeout?: number | undefined;
  /** Names of further environment variables that the harness gets. */
  passed?: readonly string[] | undefined;
}

/** A rollout that is being played. */
type Playing = HarnessModel & Watched;

/** A harness that has ended. */
interface Run {
  ended: HarnessEnd;
  watched: Watched;
}

/** Model answers in an episode, if no limit is given. Agents without a harness have the same limit. */
const defaultSteps = 100;

export function createHarnessPlayer(options: HarnessPlayerOptions) {
  const { harness, episodes, store, modelFor, maxSteps = defaultSteps, timeout, passed = [] } = options;
  const { environment } = episodes;
  const limits: ModelLimits = { ...options.limits, calls: maxSteps };
  const host = environmentHost(episodes);
  const playing = new Map<string, Playing>();
  let server: Promise<RunningServer> | undefined;
  const serving = (): Promise<RunningServer> => {
    const find = (session: string): Playing | undefined => playing.get(session);
    return (server ??= options.server({ sessions: watchedSessions(episodes, find), store, modelFor: find }));
  };

  const play: Play = async (given, signal) => {
    let rollout = given;
    let session = host.findSession(rollout);
    const deadline = createDeadline(signal, timeout);
    let fields: TaskRow = {};
    let errors: Pick<Played, "errors"> = {};
    try {
      const opening = await opened(given, deadline.signal);
      ({ rollout, session } = opening);
      const run = opening.isPlayed ? undefined : await runIn(rollout, session, deadline.signal);
      if (signal.aborted) throw new HoldfastError("run_cancelled", "the episode was cancelled");
      const events = await readEvents(episodes, session);
      const lines = modelLines(events, [...environment.definitions.keys()]);
      fields = harnessFields(rollout, harness, events, lines);
      errors = errorsInCalls(events);
      const exchanges = exchangesIn(events);
      const answers = exchanges.length;
      const stopped = run?.watched.isRefused || isCutShort(lines) ? limitIn(exchanges, limits) : undefined;
      const [lostCall] = run?.watched.calls.values() ?? [];
      const failure =
        deadline.failure() ??
        (lostCall === undefined ? undefined : failureFromError(lostCall)) ??
        (run && failureOf(run, lines, answers, stopped));
      if (failure) return { outcome: "failed", fields, session, failure, ...errors };
      const response = bareNames(fields["response"], environment) as Json;
      const state = (): Promise<never> => Promise.reject(new TypeError("a harness has no conversation"));
      const { verdict } = await host.verdict(rollout, { state, response, signal: deadline.signal });
      return {
        outcome: "scored",
        fields: { ...fields, ...verdict },
        session,
        ...(stopped !== undefined && { stopped }),
        ...errors,
      };
    } catch (thrown) {
      return { outcome: "failed", fields, session, failure: deadline.failure() ?? failureFromError(thrown), ...errors };
    } finally {
      deadline.end();
    }
  };

  /**
   * Opens the episode. A harness cannot continue where it was interrupted, so it starts again in a new session, where
   * none of its call ids was used. `isPlayed`: the episode was played to its end, and only its row is missing.
   */
  async function opened(
    given: Rollout,
    signal: AbortSignal,
  ): Promise<{ rollout: Rollout; session: string; isPlayed: boolean }> {
    for (let number = 0; ; number++) {
      const rollout = number === 0 ? given : { ...given, session: derivedId(given.session, `start ${number}`) };
      const session = host.findSession(rollout);
      await host.open(rollout, signal);
      const events = await readEvents(episodes, session);
      if (events.some(({ type }) => type === "session.verified" || type === "verify.failed"))
        return { rollout, session, isPlayed: true };
      const isNew = events.every(({ type }) => type === "session.opened" || type === "session.seeded");
      if (isNew) return { rollout, session, isPlayed: false };
    }
  }

  /** Starts the harness, and resolves when it has ended and no call of its tools is running. */
  async function runIn(rollout: Rollout, session: string, signal: AbortSignal): Promise<Run> {
    const { row } = rollout;
    const { prompt, instructions } = promptIn(row);
    const named = new Set(toolNamesIn(row));
    const tools = [...environment.definitions.keys()].filter((name) => named.size === 0 || named.has(name));
    const ending = new AbortController();
    const watched: Playing = {
      model: untilEnded(modelFor(rollout), ending.signal),
      settings: readSettings(row),
      limits,
      requests: new Map(),
      calls: new Map(),
      running: new Set(),
    };
    const isNarrow = tools.length < environment.definitions.size;
    const folder = await mkdtemp(join(tmpdir(), "holdfast-harness-"));
    playing.set(session, watched);
    try {
      const address = (await serving()).address(session, isNarrow ? tools : undefined);
      const { name } = environment;
      const task: HarnessTask = { environment: name, address, prompt, instructions, tools, folder, maxSteps, timeout };
      const launch = await prepareHarness(harness, task);
      const env = { ...launch.env, ...(await describeTask(task)) };
      const ended = await runHarness({ ...launch, env, passed, home: folder, folder, signal });
      return { ended, watched };
    } finally {
      // A process that left the harness's group may still send calls. They are refused, so that the state stays as it is.
      playing.delete(session);
      ending.abort();
      await unlessAborted(signal, Promise.allSettled(watched.running), () => undefined).catch(() => undefined);
      await rm(folder, { recursive: true, force: true, maxRetries: 3 }).catch(({ code }: NodeJS.ErrnoException) =>
        process.emitWarning(`cannot delete ${folder}: ${code}; delete it yourself`),
      );
    }
  }

  return {
    play,
    async stop() {
      await (await server?.catch(() => undefined))?.close();
    },
  };
}

/** Returns a model that stops answering when its harness has ended. */
function untilEnded(model: Model, ended: AbortSignal): Model {
  return {
    name: model.name,
    respond(request, options) {
      const signal = options?.signal ? AbortSignal.any([options.signal, ended]) : ended;
      return orCancelled(signal, model.respond(request, { ...options, signal }));
    },
  };
}

/** Returns whether the model's last answer had a call, so that its conversation was not finished. */
const isCutShort = ({ main }: ModelLines): boolean => main.at(-1)?.output.some(isFunctionCall) === true;

/** Returns the limit that the recorded answers reach. */
function limitIn(exchanges: readonly Exchange[], limits: ModelLimits): string | undefined {
  let used: ModelTotals | undefined;
  for (const exchange of exchanges) used = addExchange(used, exchange);
  return limitReached(used, limits, 0)?.limit;
}

/** Returns why a harness failed. Then the episode gets no reward, because the failure says nothing about the model. */
function failureOf(
  { ended: { code, output, failure }, watched: { requests } }: Run,
  { main }: ModelLines,
  answers: number,
  stopped: string | undefined,
): RolloutFailure | undefined {
  // A harness may fail at a limit of its model, so the exit code says nothing there.
  const isDone = code === 0 || (stopped !== undefined && answers > 0);
  // Ignores a failed request after which the harness continued, for example with a shorter request.
  const continued = isDone ? (main.at(-1)?.at ?? 0) : 0;
  const lost = [...requests.values()].find(({ at }) => at > continued);
  if (lost) return failureFromError(lost.thrown);
  if (isDone) return answers > 0 ? undefined : { kind: "agent", reason: "the harness ended without asking its model" };
  const exit = code === undefined ? "was ended by a signal" : `ended with exit code ${code}`;
  const how = failure === undefined ? exit : `could not be started: ${failure}`;
  const said = output === "" ? "" : `; its output ends with: ${output.slice(-500)}`;
  return { kind: "agent", reason: `the harness ${how}${said}` };
}

/** Reads a task's input. The user's messages become the prompt, and system messages become the instructions. */
function promptIn(row: TaskRow): { prompt: string; instructions: string | undefined } {
  const { instructions } = Object(row["responses_create_params"]) as TaskRow;
  const system = typeof instructions === "string" && instructions !== "" ? [instructions] : [];
  const user: string[] = [];
  for (const item of firstMessage(row)) {
    if (!isMessage(item) || item.role === "assistant") {
      throw new HoldfastError(
        "invalid_task",
        "a harness starts from messages of the system and the user only; remove the other items from the task's input",
      );
    }
    const parts: (Content | null)[] = typeof item.content === "string" ? [] : item.content;
    const other = parts.find((part) => typeof part?.text !== "string");
    if (other) {
      throw new HoldfastError(
        "invalid_task",
        `a harness starts from text only; remove the part of type ${ellipsis(String(other.type), 100)} from the task's input`,
      );
    }
    (item.role === "user" ? user : system).push(toText(item.content));
  }
  return { prompt: user.join("\n\n"), instructions: system.length > 0 ? system.join("\n\n") : undefined };
}
