// holdfast collect: plays an agent over a file of tasks, and writes scored transcripts.
import { InvalidArgumentError, Option, type Command } from "commander";
import { invalidOption } from "../core/errors.ts";
import { createTree, type Branching } from "../rollout/tree.ts";
import { duration, finite, whole } from "./flags.ts";
import { storeUrls } from "../stores/open.ts";
import { isUrl, type CollectionSettings } from "../rollout/collection-settings.ts";
import { endProcess } from "../telemetry/process.ts";

/** The number of concurrent rollouts. Rollouts that wait in a queue cost little, and keep the workers busy. */
const atOnce = 32;
const handedOut = 256;

/** The maximum number of rollouts of one episode. */
const mostLeaves = 10_000;

const example = `
Examples:
  $ holdfast collect examples/counter --model scripted --repeats 4 \\
      --out runs/counter.jsonl
  $ holdfast collect examples/counter --model chat:Qwen/Qwen3-8B \\
      --concurrency 200 --out runs/qwen.jsonl
  $ holdfast collect examples/counter --model scripted --repeats 4 \\
      --out runs/counter.jsonl --resume
  $ holdfast collect examples/counter --model random --branch 3@2 \\
      --out runs/trees.jsonl
  $ holdfast collect --server http://localhost:8080 --tasks tasks.jsonl \\
      --model chat:llama3.2 --out runs/served.jsonl
  $ holdfast collect --agent http://localhost:9000 --tasks tasks.jsonl \\
      --out runs/theirs.jsonl
  $ holdfast collect examples/counter --queue redis://127.0.0.1:6379 \\
      --repeats 4 --out runs/shared.jsonl

Beside OUT it writes OUT_failures.jsonl, OUT_materialized_inputs.jsonl,
OUT_aggregate_metrics.json, OUT_run.json and, unless --store names another one,
OUT.db with every session. What was stopped, by Ctrl-C or by kill -9, goes on
with --resume. Models are scripted (the solution beside the environment),
random, random:SEED, openai:NAME, chat:NAME, anthropic:NAME and recorded:FILE.`;

type GivenFlags = Omit<CollectionSettings, "concurrency"> & Partial<Pick<CollectionSettings, "concurrency">>;

export function addCollect(program: Command): void {
  program
    .command("collect")
    .description("Play an agent over tasks, many times each and many at once, and write scored transcripts.")
    .argument("[environment]", "a folder, file or package with an environment; not needed with --server or --agent URL")
    .requiredOption("--out <file>", "where the rows go, as JSON lines: a file that ends in .jsonl")
    .option("--tasks <file>", "the tasks, as JSON lines; by default tasks.jsonl beside the environment")
    .option("--model <name>", "the model that plays", "scripted")
    .option("--server <url>", "play on a server of the gym protocol, Holdfast's or another one")
    .option("--agent <target>", "an agent of your own: a folder, file or package, or the address of one with POST /run")
    .option("--store <url>", `where sessions live: ${storeUrls}; by default a file beside OUT`)
    .option("--queue <url>", "have `holdfast worker` processes play: redis://HOST; by default it is the store too")
    .option("--repeats <number>", "how often each task is played", whole(1), 1)
    .option(
      "--branch <ways@step>",
      "fork every episode after a tool step: 3@2 into three after the second; again for deeper trees",
      branching,
    )
    .option(
      "--concurrency <number>",
      `how many episodes at once: ${atOnce}; with --queue, how many are handed out at once: ${handedOut}`,
      whole(1, 100_000),
    )
    .option("--attempts <number>", "how often a rollout that fails is played in all", whole(1, 100), 3)
    .option(
      "--max-steps <number>",
      "answers of the model in an episode; 100, unless the agent says otherwise",
      whole(1),
    )
    .option("--timeout <duration>", "how long an episode may take, as in 10m", duration)
    .option(
      "--reply-timeout <duration>",
      "until a reply of --server or --agent URL is complete; by default 10m, of an agent 4h",
      duration,
    )
    .option("--reply-idle <duration>", "between two parts of such a reply; by default 2m", duration)
    .option("--max-reply <megabytes>", "of the largest such reply; by default 64", whole(1, 256))
    .option("--limit <number>", "how many rows of the tasks", whole(1))
    .option("--seed <number>", "random seed for environments, the random model and confidence intervals", whole(0), 0)
    .addOption(
      new Option(
        "--random-seed <per>",
        "what shares the environment's random numbers: all repeats of a task, or nothing (default: per-task)",
      ).choices(["per-task", "per-rollout"]),
    )
    .option("--temperature <number>", "passed to the model", finite("It is a number, as in 0.7."))
    .option("--resume", "go on with what is in OUT already; what failed is played again")
    .option("--force", "go on also if the settings are others than before; not if a task that was begun is another")
    .option("--json", "print events as JSON lines")
    .addHelpText("after", example)
    .action(async (given: string | undefined, told: GivenFlags) => {
      const flags: CollectionSettings = {
        ...told,
        concurrency: told.concurrency ?? (told.queue === undefined ? atOnce : handedOut),
      };
      const [target, server] = isUrl(given) ? [undefined, flags.server ?? given] : [given, flags.server];
      if (target === undefined && server === undefined && !isUrl(flags.agent)) {
        throw invalidOption("name an environment, or where it is played: --server, --agent URL");
      }
      // Other files have its name with other endings: those of x.jsonl and x.json would collide.
      if (!/[^/\\]\.jsonl$/.test(flags.out)) {
        throw invalidOption(`--out must end in .jsonl, as in runs/counter.jsonl, not ${flags.out}`);
      }
      if (flags.branch && (server !== undefined || isUrl(flags.agent))) {
        const message = "--branch forks episodes of this process: not those of a --server, nor of an --agent URL";
        throw invalidOption(message);
      }
      const { branch = [], maxSteps = Infinity } = flags;
      if (branch.some(({ step }) => step >= maxSteps)) {
        throw invalidOption("--branch forks at a step below --max-steps: nothing would follow it");
      }
      const { runCollection } = await import("./collect/command.ts");
      const code = await runCollection(target, { ...flags, ...(server !== undefined && { server }) });
      await endProcess(code);
    });
}

/** Parses a branch such as 3@2, and adds it to the earlier ones. */
function branching(text: string, before: Branching[] = []): Branching[] {
  const [, ways, step] = (/^(\d{1,4})@(\d{1,6})$/.exec(text) ?? []).map(Number);
  if (ways === undefined || step === undefined || ways < 2 || step < 1) {
    throw new InvalidArgumentError("It says into how many, from 2 on, and after which tool step, as in 3@2.");
  }
  if (before.some((other) => other.step === step)) {
    throw new InvalidArgumentError(`Episodes are forked after step ${step} already.`);
  }
  const all = [...before, { ways, step }];
  if (createTree(all).leaves(0) <= mostLeaves) return all;
  throw new InvalidArgumentError(`Of one episode there would be more than ${mostLeaves} rollouts.`);
}
