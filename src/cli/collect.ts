// holdfast collect: plays an agent over a tasks file, and writes scored transcripts.
import { InvalidArgumentError, Option, type Command } from "commander";
import { invalidOption } from "../core/errors.ts";
import { createTree, type Branching } from "../rollout/tree.ts";
import { duration, finite, jsonObject, whole } from "./flags.ts";
import { requiredOption } from "./help.ts";
import { storeUrls } from "../stores/open.ts";
import { isUrl, type CollectionSettings } from "../rollout/collection-settings.ts";
import { endProcess } from "../telemetry/process.ts";

/** The number of concurrent rollouts. Rollouts that wait in a queue cost little, and keep the workers busy. */
const atOnce = 32;
const handedOut = 256;

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
  $ npx holdfast collect . --queue redis://127.0.0.1:6379 --repeats 4 \\
      --out runs/shared.jsonl

It also writes OUT_failures.jsonl, OUT_materialized_inputs.jsonl,
OUT_aggregate_metrics.json, OUT_run.json and, without --store, OUT.db with every
session. --resume continues a collection that was stopped by Ctrl-C or kill -9.

Models: scripted (the solution beside the environment), random, random:SEED,
openai:NAME, chat:NAME, anthropic:NAME, recorded:FILE.`;

type GivenFlags = Omit<CollectionSettings, "concurrency"> & Partial<Pick<CollectionSettings, "concurrency">>;

export function addCollect(program: Command): void {
  program
    .command("collect")
    .description("Play an agent on tasks, repeatedly and concurrently, and write scored transcripts.")
    .argument("[environment]", "folder, file or package of an environment; not needed with --server or --agent URL")
    .addOption(requiredOption("--out <file>", "file for the rows, as JSON lines; it must end in .jsonl"))
    .option("--tasks <file>", "tasks file in JSON Lines format (default: tasks.jsonl next to the environment)")
    .option("--model <name>", "model that plays", "scripted")
    .option("--server <url>", "run the episodes on a server that speaks the gym protocol")
    .option("--agent <target>", "your own agent: a folder, file or package, or the URL of a server with POST /run")
    .option("--agent-name <name>", 'name of the agent in the rows, for NeMo Gym (default: its own, or "agent")')
    .option("--store <url>", `store of the sessions: ${storeUrls} (default: a file beside OUT)`)
    .option(
      "--queue <url>",
      "Redis URL of a queue: `holdfast worker` processes run the episodes; also the default store",
    )
    .option("--repeats <number>", "rollouts of each task", whole(1), 1)
    .option(
      "--branch <ways@step>",
      "fork every episode after a tool step: 3@2 is three ways after step 2; repeat it for deeper trees",
      branching,
    )
    .option(
      "--concurrency <number>",
      `episodes at once (default: ${atOnce}; with --queue, ${handedOut} handed out at once)`,
      whole(1, 100_000),
    )
    .option("--attempts <number>", "maximum number of attempts at a failing rollout", whole(1, 100), 3)
    .option("--keep-going", "do not stop when the first rollouts fail for a reason that would fail all of them")
    .option(
      "--max-steps <number>",
      "maximum number of model answers in an episode (default: the agent's limit, or 100)",
      whole(1),
    )
    .option("--timeout <duration>", "time limit of an episode, as in 10m", duration)
    .option(
      "--reply-timeout <duration>",
      "time limit of a complete reply of --server or --agent URL (default: 10m; 4h for an agent)",
      duration,
    )
    .option("--reply-idle <duration>", "time limit between two parts of such a reply (default: 2m)", duration)
    .option("--max-reply <megabytes>", "size limit of such a reply (default: 64)", whole(1, 256))
    .option("--limit <number>", "play only this many tasks, from the start of the file", whole(1))
    .option("--seed <number>", "random seed for environments, the random model and confidence intervals", whole(0), 0)
    .addOption(
      new Option(
        "--random-seed <per>",
        "what shares the environment's random numbers: all repeats of a task, or nothing (default: per-task)",
      ).choices(["per-task", "per-rollout"]),
    )
    .option("--temperature <number>", "temperature of the model", finite("Give a number, as in 0.7."))
    .option("--top-p <number>", "nucleus sampling of the model", finite("Give a number, as in 0.95."))
    .option("--max-tokens <number>", "tokens of each model answer", whole(1))
    .option("--system <text>", "system prompt, in place of the `instructions` of the tasks")
    .option(
      "--request <json>",
      'further fields of each model request, as in \'{"reasoning":{"effort":"low"}}\'',
      jsonObject,
    )
    .option("--labels <json>", "labels of every row, as in '{\"iteration\":7}', for metrics --over", jsonObject)
    .option("--resume", "continue the collection in OUT; failed rollouts are played again")
    .option("--force", "resume even if settings changed; changed tasks are still refused")
    .option("--json", "print events as JSON lines")
    .addHelpText("after", example)
    .action(async (given: string | undefined, told: GivenFlags, command: Command) => {
      const flags: CollectionSettings = {
        ...told,
        concurrency: told.concurrency ?? (told.queue === undefined ? atOnce : handedOut),
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
        throw invalidOption("--branch cannot fork episodes of --server or --agent URL; leave it out");
      }
      const { branch = [], maxSteps = Infinity } = flags;
      if (branch.some(({ step }) => step >= maxSteps)) {
        throw invalidOption("--branch must fork at a step below --max-steps; otherwise no step follows the fork");
      }
      const { runCollection } = await import("./collect/command.ts");
      const { debug = false } = command.optsWithGlobals<{ debug?: boolean }>();
      const code = await runCollection(target, { ...flags, ...(server !== undefined && { server }) }, debug);
      await endProcess(code);
    });
}

/** Parses a branch such as 3@2, and adds it to the earlier ones. */
function branching(text: string, before: Branching[] = []): Branching[] {
  const [, ways, step] = (/^(\d{1,4})@(\d{1,6})$/.exec(text) ?? []).map(Number);
  if (ways === undefined || step === undefined || ways < 2 || step < 1) {
    throw new InvalidArgumentError("Give WAYS@STEP, with at least 2 ways, as in 3@2.");
  }
  if (before.some((other) => other.step === step)) {
    throw new InvalidArgumentError(`Step ${step} has a --branch already.`);
  }
  const all = [...before, { ways, step }];
  if (createTree(all).leaves(0) <= mostLeaves) return all;
  throw new InvalidArgumentError(`One episode would have more than ${mostLeaves} rollouts.`);
}
