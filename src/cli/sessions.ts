// holdfast sessions: shows the sessions in a store or on a server, and changes, copies, exports and deletes them.
import { InvalidArgumentError, Option, type Command } from "commander";
import { invalidOption } from "../core/errors.ts";
import { summarizeThrown, type Labels, type NumberedEvent, type Thrown } from "../core/event.ts";
import { jsonOrText } from "../core/json.ts";
import type { SessionInfo } from "../core/sessions.ts";
import type { Listed } from "../core/store.ts";
import { loadServed } from "../rollout/load.ts";
import {
  exportSessions,
  openSource,
  sessionIds,
  whenFree,
  type SessionSource,
  type SourceOptions,
} from "../rollout/session-source.ts";
import { whole } from "./flags.ts";
import { plain, plainLine, print } from "../io/plain.ts";
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

export function add(program: Command): void {
  const sessions = program
    .command("sessions")
    .description(
      "Show, change and copy sessions in a store or on a server. A session is an episode or a conversation with an agent.",
    )
    .addHelpText("after", "\nExample:\n  $ npx holdfast sessions list --store sqlite:sessions.db");
  const add = (name: string, description: string, example: string): Command =>
    sessions
      .command(name)
      .description(description)
      .option(
        "--store <url>",
        "a store, as in sqlite:FILE or https://TOKEN@HOST, or a server, as in http://127.0.0.1:8080 (required)",
      )
      // The name of --store in earlier versions.
      .addOption(new Option("--from <url>").hideHelp())
      .option("--environment <name>", "only sessions of this environment (default on a server: its first environment)")
      .addOption(new Option("--agent <name>", "only conversations with this agent").conflicts("environment"))
      .option("--token <text>", "the server's bearer token")
      .option("--json", "print JSON, one value per line")
      .addHelpText("after", `\nExample:\n  $ npx holdfast sessions ${example}`);

  add("list", "List sessions, oldest first.", "list --store sqlite:sessions.db --open")
    .option("--open", "only sessions that have not ended")
    .option("--ended", "only sessions that have ended")
    .option("--user <name>", "only conversations of this user")
    .option("--label <name=value>", "only sessions with this label (repeatable)", toLabel)
    .action((flags: Flags) => withSource(flags, (source) => list(source, flags)));
  add("show", "Show a session and its state.", "show ID --store sqlite:sessions.db --version 3")
    .argument("<id>", "the session")
    .option("--version <number>", "show the state at this version (default: the newest)", whole(1))
    .action((id: string, flags: Flags) => withSource(flags, (source) => show(source, id, flags)));
  add("events", "Show the events of a session.", "events ID --store sqlite:sessions.db")
    .argument("<id>", "the session")
    .action((id: string, flags: Flags) =>
      withSource(flags, async (source) => {
        const { events } = await source.verbs(id);
        for await (const event of events(id)) print(flags.json ? JSON.stringify(event) : eventLine(event));
      }),
    );
  add("fork", "Open a copy of a session, as it was at a version.", "fork ID --store sqlite:sessions.db --version 3")
    .argument("<id>", "the session")
    .option("--version <number>", "the version to start from (default: the newest)", whole(1))
    .action((id: string, { version, ...flags }: Flags) =>
      withSource(flags, async (source) => {
        const info = await (await source.verbs(id)).fork(id, version === undefined ? {} : { version });
        print(flags.json ? JSON.stringify(info) : info.session);
      }),
    );
  add(
    "rewind",
    "Return a session to an earlier version. This adds an event and removes none.",
    "rewind ID --store sqlite:sessions.db --version 3",
  )
    .argument("<id>", "the session")
    .option("--version <number>", "the version to go back to", whole(1))
    .addOption(new Option("--before <turn>", "the conversation turn to undo").conflicts("version"))
    .action((id: string, { version, before = "", ...flags }: Flags) =>
      withSource(flags, async (source) => {
        if (version === undefined && before === "")
          throw invalidOption("pass --version, or --before with the id of a turn");
        const verbs = await source.verbs(id);
        const info = await whenFree(() => verbs.rewind(id, version ?? { before }));
        print(flags.json ? JSON.stringify(info) : `${id} rewound; it is now at version ${info.version}`);
      }),
    );
  add(
    "replay",
    "Run sessions again, and report the first event that differs in each session.",
    "replay ID --store sqlite:chat.db --code .",
  )
    .argument("[id...]", "session ids (default: all sessions of --code, or of the server)")
    .option("--code <target>", "environment or agent (folder, file or package); not needed if --store is a server")
    .action((ids: string[], flags: Flags) => withSource(flags, (source) => replay(source, ids, flags)));
  add(
    "export",
    "Print sessions with all their events, one session per line.",
    "export --store sqlite:sessions.db > all.jsonl",
  )
    .argument("[id...]", "session ids (default: all sessions)")
    .action((ids: string[], flags: Flags) =>
      withSource(flags, async (source) => {
        for await (const saved of exportSessions(source, ids)) print(JSON.stringify(saved));
      }),
    );
  for (const [verb, done, description] of [
    ["close", "closed", "End sessions. A persistent store keeps their logs."],
    ["delete", "deleted", "Delete sessions from a store. On a server, close them."],
  ] as const) {
    add(verb, description, `${verb} ID --store sqlite:sessions.db`)
      .argument("<id...>", "session ids")
      .action((ids: string[], flags: Flags) =>
        withSource(flags, async (source) => {
          for (const id of ids) {
            const end = async () => (verb === "delete" ? source.delete(id) : (await source.verbs(id)).close(id));
            const isDone = await whenFree(end);
            const words = `${id} ${isDone ? done : "had already ended"}`;
            print(flags.json ? JSON.stringify({ session: id, [done]: isDone }) : words);
          }
        }),
      );
  }
  addCopy(sessions);
}

/** Adds the label NAME=VALUE to the labels of earlier --label options. A value that is not JSON is a string. */
function toLabel(text: string, before: Labels = {}): Labels {
  const [, name, value = ""] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
  if (name === undefined) throw new InvalidArgumentError("Use NAME=VALUE, as in topic=bill.");
  return { ...before, [name]: jsonOrText(value) };
}

async function withSource(flags: Flags, run: (source: SessionSource) => Promise<void>): Promise<void> {
  const { from, store: url = from, code: target, environment, agent, token } = flags;
  if (url === undefined) throw invalidOption("name a store or a server with --store, as in sqlite:sessions.db");
  if (url.startsWith("memory:")) {
    throw invalidOption("memory: sessions exist only inside the server's process; pass the server's URL with --store");
  }
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
  // The heading waits for the first session, because the store may be unreachable.
  let heading = `${"session".padEnd(22)}  ${"environment".padEnd(20)}  version  last event                ended   title\n`;
  const filter = { open: open === ended ? undefined : open === true, user, labels };
  for await (const listed of source.list(filter)) {
    print(json ? JSON.stringify(listed) : heading + sessionLine(listed));
    heading = "";
  }
  if (!json && heading !== "") print(heading.trimEnd());
}

async function show(source: SessionSource, id: string, { version, json }: Flags): Promise<void> {
  const verbs = await source.verbs(id);
  const info = await verbs.info(id);
  const state = await verbs.state(id, version ?? info.version);
  const shown = { ...info, ...(version !== undefined && { version }), state };
  print(json ? JSON.stringify(shown) : JSON.stringify(shown, null, 2));
}

async function replay(source: SessionSource, ids: string[], { json }: Flags): Promise<void> {
  for (const id of await sessionIds(source, ids)) {
    const result = await (await source.verbs(id)).replay(id);
    const words = result.same ? `${result.events} events, all identical` : result.message;
    print(json ? JSON.stringify({ session: id, ...result }) : `${id}: ${plain(words)}`);
    if (!result.same) process.exitCode = 1;
  }
}

function sessionLine({ session, environment, version, touched, ended, labels }: Listed & Partial<SessionInfo>): string {
  const time = new Date(touched).toISOString();
  const { title } = labels ?? {};
  const about = `${(ended ?? "").padEnd(6)}  ${typeof title === "string" ? plainLine(title) : ""}`;
  return `${session.padEnd(22)}  ${environment.padEnd(20)}  ${String(version).padStart(7)}  ${time}  ${about}`.trimEnd();
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
    case "model.called":
      return `${event.model} ${JSON.stringify(event.output)}`;
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
    case "client.answered":
      return JSON.stringify(event.items);
    case "invocation.began":
    case "agent.began":
    case "model.answered":
    case "tools.answered":
      return `${event.agent} ${JSON.stringify(event.items ?? [])}`;
    default:
      return "";
  }
}
