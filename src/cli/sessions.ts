// holdfast sessions: shows the sessions in a store or on a server, and changes, copies, exports and deletes them.
import { setTimeout as delay } from "node:timers/promises";
import { InvalidArgumentError, Option, type Command } from "commander";
import { invalidOption, isHoldfastError } from "../core/errors.ts";
import { summarizeThrown, type Labels, type NumberedEvent, type Thrown } from "../core/event.ts";
import { jsonOrText } from "../core/json.ts";
import type { Listed } from "../core/store.ts";
import type { SessionSource, SourceOptions } from "../rollout/session-source.ts";
import { whole } from "./flags.ts";
import { plain, print } from "./plain.ts";
import { addCopy } from "./sessions/copy.ts";

interface Flags extends Omit<SourceOptions, "code"> {
  store?: string;
  from?: string;
  json?: boolean;
  open?: boolean;
  ended?: boolean;
  user?: string;
  label?: Labels;
  version?: number;
  before?: string;
  code?: string;
}

export function addSessions(program: Command): void {
  const sessions = program
    .command("sessions")
    .description("Show, change and copy the sessions of a store or a server: episodes, and conversations with agents.")
    .addHelpText("after", "\nExample:\n  $ npx holdfast sessions list --store sqlite:sessions.db");
  const add = (name: string, description: string, example: string): Command =>
    sessions
      .command(name)
      .description(description)
      .option(
        "--store <url>",
        "a store, as in sqlite:FILE or https://TOKEN@HOST, or a server, as in http://127.0.0.1:8080 (required)",
      )
      // Its name in earlier versions.
      .addOption(new Option("--from <url>").hideHelp())
      .option("--environment <name>", "only sessions of this environment; of a server, by default the first one's")
      .addOption(new Option("--agent <name>", "only conversations with this agent").conflicts("environment"))
      .option("--token <text>", "the bearer token of the server")
      .option("--json", "print JSON, one value on a line")
      .addHelpText("after", `\nExample:\n  $ npx holdfast sessions ${example}`);

  add("list", "List sessions, in the order of opening.", "list --store sqlite:sessions.db --open")
    .option("--open", "only sessions that have not ended")
    .option("--ended", "only sessions that have ended")
    .option("--user <name>", "only conversations of this user")
    .option("--label <name=value>", "only sessions with this label; can be repeated", toLabel)
    .action((flags: Flags) => withSource(flags, (source) => list(source, flags)));
  add("show", "Show a session and its state.", "show ID --store sqlite:sessions.db --version 3")
    .argument("<id>", "the session")
    .option("--version <number>", "the version of the state; by default the newest", whole(1))
    .action((id: string, flags: Flags) => withSource(flags, (source) => show(source, id, flags)));
  add("events", "Show the events of a session.", "events ID --store sqlite:sessions.db")
    .argument("<id>", "the session")
    .action((id: string, flags: Flags) =>
      withSource(flags, async (source) => {
        const { events } = await source.verbs(id);
        for await (const event of events(id)) print(flags.json ? JSON.stringify(event) : eventLine(event));
      }),
    );
  add(
    "fork",
    "Open a session that starts as another one was at a version.",
    "fork ID --store sqlite:sessions.db --version 3",
  )
    .argument("<id>", "the session")
    .option("--version <number>", "the version to start from; by default the newest", whole(1))
    .action((id: string, { version, ...flags }: Flags) =>
      withSource(flags, async (source) => {
        const info = await (await source.verbs(id)).fork(id, version === undefined ? {} : { version });
        print(flags.json ? JSON.stringify(info) : info.session);
      }),
    );
  add(
    "rewind",
    "Return a session to an earlier version, by one more event.",
    "rewind ID --store sqlite:sessions.db --version 3",
  )
    .argument("<id>", "the session")
    .option("--version <number>", "the version to go back to", whole(1))
    .addOption(new Option("--before <turn>", "the turn of a conversation to undo").conflicts("version"))
    .action((id: string, { version, before = "", ...flags }: Flags) =>
      withSource(flags, async (source) => {
        if (version === undefined && before === "")
          throw invalidOption("a rewind needs --version, or --before with a turn");
        const verbs = await source.verbs(id);
        const info = await whenFree(() => verbs.rewind(id, version ?? { before }));
        print(flags.json ? JSON.stringify(info) : `${id} rewound, and is at version ${info.version}`);
      }),
    );
  add(
    "replay",
    "Run sessions again, and name the first event of each that differs.",
    "replay ID --store sqlite:chat.db --code .",
  )
    .argument("[id...]", "the sessions (default: all sessions of the code or the server)")
    .option("--code <target>", "folder, file or package of the environment or agent; not needed if --store is a server")
    .action((ids: string[], flags: Flags) => withSource(flags, (source) => replay(source, ids, flags)));
  add(
    "export",
    "Print sessions with all their events, one session on a line.",
    "export --store sqlite:sessions.db > all.jsonl",
  )
    .argument("[id...]", "the sessions; by default all")
    .action((ids: string[], flags: Flags) => withSource(flags, (source) => exportAll(source, ids)));
  for (const [verb, done, description] of [
    ["close", "closed", "End sessions. A persistent store keeps their logs."],
    ["delete", "deleted", "Delete sessions of a store, or close those of a server."],
  ] as const) {
    add(verb, description, `${verb} ID --store sqlite:sessions.db`)
      .argument("<id...>", "the sessions")
      .action((ids: string[], flags: Flags) =>
        withSource(flags, async (source) => {
          for (const id of ids) {
            const end = async () => (verb === "delete" ? source.delete(id) : (await source.verbs(id)).close(id));
            const isDone = await whenFree(end);
            const words = `${id} ${isDone ? done : "had ended before"}`;
            print(flags.json ? JSON.stringify({ session: id, [done]: isDone }) : words);
          }
        }),
      );
  }
  addCopy(sessions);
}

/** Retries after a turn's lease has expired, because the process that ran the turn may have died. */
async function whenFree<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (thrown) {
    const lapsesIn = isHoldfastError(thrown) && thrown.code === "session_busy" && thrown.detail["lapsesIn"];
    if (typeof lapsesIn !== "number") throw thrown;
    await delay(lapsesIn);
    return work();
  }
}

/** Adds a label to the earlier ones. If the value is JSON, it is parsed; otherwise it is text. */
function toLabel(text: string, before: Labels = {}): Labels {
  const [, name, value = ""] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
  if (name === undefined) throw new InvalidArgumentError("A label is a name and a value, as in topic=bill.");
  return { ...before, [name]: jsonOrText(value) };
}

async function withSource(flags: Flags, run: (source: SessionSource) => Promise<void>): Promise<void> {
  const { from, store: url = from, code: target, environment, agent, token } = flags;
  if (url === undefined) throw invalidOption("name a store or a server with --store, as in sqlite:sessions.db");
  if (url.startsWith("memory:")) {
    throw invalidOption("memory: keeps sessions in one process only; name the server that has them");
  }
  const { openSource } = await import("../rollout/session-source.ts");
  const { loadServed } = await import("../rollout/load.ts");
  const loaded = target === undefined ? undefined : await loadServed(target);
  const code = loaded && ("agent" in loaded ? loaded.agent : loaded.environment);
  const source = await openSource(url, { environment, agent, code, token });
  try {
    await run(source);
  } finally {
    await source.stop();
  }
}

async function list(source: SessionSource, { open, ended, user, label: labels, json }: Flags): Promise<void> {
  if (!json) print(`${"session".padEnd(22)}  ${"environment".padEnd(20)}  version  last event                ended`);
  const filter = { open: open === ended ? undefined : open === true, user, labels };
  for await (const listed of source.list(filter)) print(json ? JSON.stringify(listed) : sessionLine(listed));
}

async function show(source: SessionSource, id: string, { version, json }: Flags): Promise<void> {
  const verbs = await source.verbs(id);
  const info = await verbs.info(id);
  const state = await verbs.state(id, version ?? info.version);
  const shown = { ...info, ...(version !== undefined && { version }), state };
  print(json ? JSON.stringify(shown) : JSON.stringify(shown, null, 2));
}

async function replay(source: SessionSource, ids: string[], { json }: Flags): Promise<void> {
  for (const id of await chosen(source, ids)) {
    const result = await (await source.verbs(id)).replay(id);
    const words = result.same ? `${result.events} events, all the same` : result.message;
    print(json ? JSON.stringify({ session: id, ...result }) : `${id}: ${plain(words)}`);
    if (!result.same) process.exitCode = 1;
  }
}

/** The given sessions, or all. */
async function chosen(source: SessionSource, ids: string[]): Promise<string[]> {
  const all = [...ids];
  if (ids.length === 0) for await (const { session } of source.list({})) all.push(session);
  return all;
}

async function exportAll(source: SessionSource, ids: string[]): Promise<void> {
  for (const id of await chosen(source, ids)) {
    const verbs = await source.verbs(id);
    const events: NumberedEvent[] = [];
    for await (const event of verbs.events(id)) events.push(event);
    print(JSON.stringify({ ...(await verbs.info(id)), events }));
  }
}

function sessionLine({ session, environment, version, touched, ended }: Listed): string {
  const time = new Date(touched).toISOString();
  return `${session.padEnd(22)}  ${environment.padEnd(20)}  ${String(version).padStart(7)}  ${time}  ${ended ?? ""}`.trimEnd();
}

function eventLine(event: NumberedEvent): string {
  const head = `${String(event.version).padStart(5)}  ${new Date(event.at).toISOString()}  ${event.type.padEnd(16)}`;
  const errors = "thrown" in event && event.thrown ? [event.thrown].flat() : [];
  return [`${head}  ${aboutEvent(event)}`.trimEnd(), ...errors.map(thrownLines)].join("\n");
}

/** An error in the author's code, indented below its event. */
const thrownLines = (thrown: Thrown): string =>
  [summarizeThrown(thrown), ...(thrown.stack?.split("\n").slice(1) ?? [])]
    .map((line) => `       ${plain(line)}`)
    .join("\n");

function aboutEvent(event: NumberedEvent): string {
  switch (event.type) {
    case "session.seeded":
      return `episode ${event.episode} ${JSON.stringify(event.task)}`;
    case "tool.called":
      return `${event.tool} ${JSON.stringify(event.input)} ${JSON.stringify(event.outcome)}`;
    case "tool.claimed":
      return `${event.tool} ${JSON.stringify(event.input)}`;
    case "tool.settled":
      return `${event.tool} ${JSON.stringify(event.outcome)}`;
    case "session.verified":
      return JSON.stringify(event.verdict);
    case "verify.failed":
      return JSON.stringify(event.error.message);
    case "session.rewound":
      return `to ${event.to}`;
    case "session.closed":
      return event.reason;
    case "session.opened":
      return event.parent ? `forked from ${event.parent.session} at ${event.parent.version}` : event.environment;
    case "agent.ended":
      return `${event.agent} ${event.outcome}`;
    case "agent.failed":
      return `${event.agent} ${event.error.code} ${JSON.stringify(event.error.message)}`;
    case "tools.started":
      return `${event.agent} ${event.calls.join(" ")}`;
    case "invocation.began":
    case "agent.began":
    case "model.answered":
    case "tools.answered":
      return `${event.agent} ${JSON.stringify(event.items ?? [])}`;
    default:
      return "";
  }
}
