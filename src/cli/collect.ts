// holdfast collect: runs an agent over a tasks file, and writes scored transcripts.
import { InvalidArgumentError, Option, type Command } from "commander";
import { invalidOption } from "../core/errors.ts";
import { createTree, type Branching } from "../rollout/tree.ts";
import { duration, finite, jsonObject, positive, whole } from "./flags.ts";
import { requiredOption } from "./help.ts";
import { storeUrls } from "../stores/open.ts";
import { isUrl, type CollectionSettings } from "../rollout/collection-settings.ts";
import { endProcess } from "../telemetry/process.ts";
import { collectRollouts, type CollectionResult } from "../rollout/collect-rollouts.ts";
import { assertQueue, queuePlayer } from "../queue/collector.ts";
import { exitCodes, stopOnSignals } from "../io/stop-on-signals.ts";
import { reportBlockedCollection } from "../rollout/report-blocked.ts";
import { watchProcess } from "../rollout/stray-errors.ts";
import { createProgress } from "./collect/progress.ts";
import { againText, formatSummary } from "./collect/summary.ts";

/** The number of concurrent rollouts. Rollouts that wait in a queue cost little, and keep the workers busy. */
const atOnce = 32;
const handedOut = 256;
/** A harness is a program with some hundred megabytes of memory. */
const harnessesAtOnce = 4;

/** The maximum number of rollouts from one episode. */
const mostLeaves = 10_000;

const example = `
Examples:
  $ npx holdfast collect . --model scripted --repeats 4 --out runs/first.jsonl
  $ npx holdfast collect . --model chat:Qwen/Qwen3-8B --concurrency 200 \\
      --max-tokens 2048 --request '{"reasoning":{"effort":"low"}}' \\
      --out runs/qwen.jsonl
  $ npx holdfast collect . --model scripted --repeats 4 --out runs/first.jsonl \\
      --resume
  $ npx holdfast collect . --model random --branch 3@2 --out runs/trees.jsonl
  $ npx holdfast collect --server http://localhost:8080 --tasks tasks.jsonl \\
      --model chat:llama3.2 --out runs/served.jsonl
  $ npx holdfast collect --agent http://localhost:9000 --tasks tasks.jsonl \\
      --out runs/theirs.jsonl
  $ npx holdfast collect . --harness codex --model chat:Qwen3 \\
      --out runs/codex.jsonl
  $ npx holdfast collect . --harness ./my-harness.sh --model openai:gpt-5.1 \\
      --out runs/mine.jsonl
  $ npx holdfast collect . --queue redis://127.0.0.1:6379 --repeats 4 \\
      --out runs/shared.jsonl

The command also writes OUT_failures.jsonl, OUT_materialized_inputs.jsonl,
OUT_aggregate_metrics.json and OUT_run.json. Without --store, it stores every
session in OUT.db. --resume continues a collection after Ctrl-C or kill -9.

Models: scripted (the solution next to the environment), random, random:SEED,
openai:NAME, chat:NAME, anthropic:NAME, recorded:FILE.`;

interface Flags extends CollectionSettings {
  json?: boolean;
}

type GivenFlags = Omit<Flags, "concurrency"> & Partial<Pick<Flags, "concurrency">>;

export function add(program: Command): void {
  program
    .command("collect")
    .description("Run an agent on tasks, several times and concurrently, and write scored transcripts.")
    .argument("[environment]", "environment (folder, file or package); not needed with --server or --agent URL")
    .addOption(requiredOption("--out <file>", "output file in JSON Lines format; its name must end in .jsonl"))
    .option("--tasks <file>", "tasks file in JSON Lines format (default: tasks.jsonl next to the environment)")
    .option("--model <name>", "the model to run", "scripted")
    .option("--server <url>", "run the episodes on a gym protocol server, or with gymnasium+URL on a gymnasium server")
    .option("--agent <target>", "your own agent (folder, file or package), or the URL of a server with POST /run")
    .option("--harness <program>", "program that acts as the agent: claude-code, codex, or your own command")
    .option("--harness-env <names...>", "environment variables to pass to the harness; by default it gets no keys")
    .option("--agent-name <name>", 'agent name in the rows, for NeMo Gym (default: its own name, or "agent")')
    .option("--store <url>", `session store: ${storeUrls} (default: a file next to OUT)`)
    .option(
      "--queue <url>",
      "Redis URL of a job queue, whose `holdfast worker` processes run the episodes; it is also the default store",
    )
    .option("--repeats <number>", "number of rollouts per task", whole(1), 1)
    .option(
      "--branch <ways@step>",
      "fork every episode after a tool step: 3@2 forks it three ways after step 2; repeat the option for deeper trees",
      branching,
    )
    .option(
      "--concurrency <number>",
      `number of concurrent episodes (default: ${atOnce}, or ${harnessesAtOnce} with --harness); with --queue: maximum number of rollouts that wait or run in the queue (default: ${handedOut})`,
      whole(1, 100_000),
    )
    .option("--attempts <number>", "maximum number of attempts per rollout", whole(1, 100), 3)
    .option("--keep-going", "continue even if the first rollouts fail for a reason that would fail every rollout")
    .option(
      "--max-steps <number>",
      "maximum number of model answers per episode (default: the agent's limit, or 100)",
      whole(1),
    )
    .option("--max-total-tokens <number>", "with --harness: maximum number of tokens per episode", whole(1))
    .option(
      "--max-cost <number>",
      "with --harness: maximum cost per episode, if the model's server reports costs",
      positive,
    )
    .option("--timeout <duration>", "time limit per episode, as in 10m", duration)
    .option(
      "--reply-timeout <duration>",
      "time limit for a complete reply from --server or --agent URL (default: 10m; 4h for an agent)",
      duration,
    )
    .option(
      "--reply-idle <duration>",
      "time limit between two parts of a reply from --server or --agent URL (default: 2m)",
      duration,
    )
    .option(
      "--max-reply <megabytes>",
      "size limit, in MB, for a reply from --server or --agent URL (default: 64)",
      whole(1, 256),
    )
    .option("--limit <number>", "run only this many tasks, from the start of the file", whole(1))
    .option("--seed <number>", "random seed for environments, the random model and confidence intervals", whole(0), 0)
    .addOption(
      new Option(
        "--random-seed <per>",
        "which rollouts share the environment's random numbers: all repeats of a task, or none (default: per-task)",
      ).choices(["per-task", "per-rollout"]),
    )
    .option("--temperature <number>", "the model's sampling temperature", finite("Use a number, as in 0.7."))
    .option("--top-p <number>", "the model's top-p (nucleus sampling)", finite("Use a number, as in 0.95."))
    .option("--max-tokens <number>", "maximum number of tokens per model answer", whole(1))
    .option("--system <text>", "system prompt; replaces the `instructions` of the tasks")
    .option(
      "--request <json>",
      'extra fields for each model request, as in \'{"reasoning":{"effort":"low"}}\'',
      jsonObject,
    )
    .option("--labels <json>", "labels for every row, as in '{\"iteration\":7}'; see metrics --over", jsonObject)
    .option("--resume", "continue the collection in OUT, and retry failed rollouts")
    .option("--force", "resume even if settings changed; changed tasks are still refused")
    .option("--json", "print events as JSON lines")
    .addHelpText("after", example)
    .action(async (given: string | undefined, told: GivenFlags, command: Command) => {
      const flags: Flags = {
        ...told,
        concurrency: told.concurrency ?? defaultConcurrency(told),
      };
      const [target, server] = isUrl(given) ? [undefined, flags.server ?? given] : [given, flags.server];
      if (target === undefined && server === undefined && !isUrl(flags.agent)) {
        throw invalidOption("name an environment, --server URL or --agent URL");
      }
      // Other files have the same name with different extensions, so the files for x.jsonl and x.json would collide.
      if (!/[^/\\]\.jsonl$/.test(flags.out)) {
        throw invalidOption(`--out must end in .jsonl, as in runs/scripted.jsonl, not ${flags.out}`);
      }
      if (flags.branch && (server !== undefined || isUrl(flags.agent))) {
        throw invalidOption("--branch cannot fork episodes on --server or --agent URL; remove --branch");
      }
      const { branch = [], maxSteps = Infinity } = flags;
      if (branch.some(({ step }) => step >= maxSteps)) {
        throw invalidOption("--branch must fork at a step below --max-steps; otherwise no step follows the fork");
      }
      const { debug = false } = command.optsWithGlobals<{ debug?: boolean }>();
      const code = await runCollection(target, { ...flags, ...(server !== undefined && { server }) }, debug);
      await endProcess(code);
    });
}

function defaultConcurrency({ harness, queue }: GivenFlags): number {
  if (harness !== undefined) return harnessesAtOnce;
  return queue === undefined ? atOnce : handedOut;
}

/** Parses a branch such as 3@2, and adds it to the earlier ones. */
function branching(text: string, before: Branching[] = []): Branching[] {
  const [, ways, step] = (/^(\d{1,4})@(\d{1,6})$/.exec(text) ?? []).map(Number);
  if (ways === undefined || step === undefined || ways < 2 || step < 1) {
    throw new InvalidArgumentError("Use WAYS@STEP, with at least 2 ways, as in 3@2.");
  }
  if (before.some((other) => other.step === step)) {
    throw new InvalidArgumentError(`Step ${step} already has a --branch.`);
  }
  const all = [...before, { ways, step }];
  if (createTree(all).leaves(0) <= mostLeaves) return all;
  throw new InvalidArgumentError(`One episode would have more than ${mostLeaves} rollouts.`);
}

/** Returns the exit code: 0 if every rollout was scored. */
async function runCollection(
  environment: string | undefined,
  { json = false, ...settings }: Flags,
  isDebugged: boolean,
): Promise<number> {
  assertQueue(settings);
  const progress = createProgress({ json, isQueued: settings.queue !== undefined });
  const { signal, end } = stopOnSignals({
    names: ["SIGINT", "SIGTERM", "SIGHUP"],
    onStop() {
      const running =
        settings.queue === undefined
          ? "--resume will continue the running episodes"
          : "the workers finish the running episodes, and --resume will collect their results";
      progress.say(`stopping; ${running} (press Ctrl-C again to stop immediately)`);
    },
  });
  const unwatch = watchProcess(progress.stray, () => (signal.aborted ? undefined : `continue with: ${againText()}`));
  // A queue's workers have their own watchdog.
  const blocked = settings.queue === undefined ? reportBlockedCollection() : undefined;
  try {
    const { metrics, ...collected } = await collectRollouts({
      ...settings,
      environment,
      signal,
      onPlan: progress.plan,
      // Loaded on demand, because loading the server takes as long as the rest.
      harnessServer: async (given) => (await import("./collect/harness-server.ts")).openHarnessServer(given),
      onStart: progress.start,
      onRow: progress.row,
      onRunning: progress.running,
      onEvent(event, rollout) {
        progress.event(event, rollout);
        blocked?.event(event, rollout);
      },
      onError: isDebugged ? progress.stack : undefined,
      onRetry: progress.retry,
      onFewer: progress.fewer,
      ...(settings.queue !== undefined && {
        playerFor: (record) => queuePlayer(environment, settings, record, progress.say),
      }),
    });
    progress.end();
    if (json) process.stdout.write(`${JSON.stringify({ type: "collected", ...collected, metrics })}\n`);
    else
      process.stdout.write(
        formatSummary(collected, metrics, {
          out: settings.out,
          total: progress.total(),
          repeated: progress.repeated(),
          reasons: progress.reasons(),
        }),
      );
    return toExitCode(collected);
  } finally {
    end();
    unwatch();
    blocked?.stop();
    progress.end();
  }
}

function toExitCode({ stopped, gaveUp, failed }: Omit<CollectionResult, "metrics">): number {
  if (stopped && !gaveUp) return exitCodes.SIGINT;
  return failed > 0 ? 1 : 0;
}
