// holdfast sessions: looks at the sessions of a store or a server, copies, exports and deletes them.
import type { Command } from "commander";
import { invalidOption } from "../core/errors.ts";
import type { NumberedEvent } from "../core/event.ts";
import type { SessionInfo } from "../core/sessions.ts";
import type { Listed } from "../core/store.ts";
import { whole } from "./flags.ts";
import type { SessionSource } from "../rollout/session-source.ts";
import { addCopy } from "./sessions/copy.ts";

interface Flags {
  from: string;
  environment?: string;
  token?: string;
  json?: boolean;
  open?: boolean;
  ended?: boolean;
  version?: number;
}

export function addSessions(program: Command): void {
  const sessions = program
    .command("sessions")
    .description("Look at the sessions of a store or a server, copy, export and delete them.")
    .addHelpText("after", "\nExample:\n  $ holdfast sessions list --from sqlite:counter.db");
  const add = (name: string, description: string, example: string): Command =>
    sessions
      .command(name)
      .description(description)
      .requiredOption("--from <url>", "a store, as in sqlite:FILE, or a server, as in http://127.0.0.1:8080")
      .option("--environment <name>", "only sessions of this environment; of a server, by default the first one's")
      .option("--token <text>", "the bearer token of the server")
      .option("--json", "print JSON, one value on a line")
      .addHelpText("after", `\nExample:\n  $ holdfast sessions ${example}`);

  add("list", "List sessions, in the order of opening.", "list --from sqlite:counter.db --open")
    .option("--open", "only those that have not ended")
    .option("--ended", "only those that have ended")
    .action((flags: Flags) => withSource(flags, (source) => list(source, flags)));
  add("show", "Show a session and its state.", "show ID --from sqlite:counter.db --version 3")
    .argument("<id>", "the session")
    .option("--version <number>", "the version of the state; by default the newest", whole(1))
    .action((id: string, flags: Flags) => withSource(flags, (source) => show(source, id, flags)));
  add("events", "Show the events of a session.", "events ID --from sqlite:counter.db")
    .argument("<id>", "the session")
    .action((id: string, flags: Flags) =>
      withSource(flags, async (source) => {
        for await (const event of source.events(id)) print(flags.json ? JSON.stringify(event) : eventLine(event));
      }),
    );
  add(
    "fork",
    "Open a session that starts as another one was at a version.",
    "fork ID --from sqlite:counter.db --version 3",
  )
    .argument("<id>", "the session")
    .option("--version <number>", "the version to start from; by default the newest", whole(1))
    .action((id: string, flags: Flags) =>
      withSource(flags, async (source) => {
        const info = await source.fork(id, flags.version);
        print(flags.json ? JSON.stringify(info) : info.session);
      }),
    );
  add(
    "export",
    "Print sessions with all their events, one session on a line.",
    "export --from sqlite:counter.db > all.jsonl",
  )
    .argument("[id...]", "the sessions; by default all")
    .action((ids: string[], flags: Flags) => withSource(flags, (source) => exportAll(source, ids)));
  add("delete", "Forget sessions of a store; close those of a server.", "delete ID --from sqlite:counter.db")
    .argument("<id...>", "the sessions")
    .action((ids: string[], flags: Flags) =>
      withSource(flags, async (source) => {
        for (const id of ids) {
          const deleted = await source.delete(id);
          print(
            flags.json ? JSON.stringify({ session: id, deleted }) : `${id} ${deleted ? "deleted" : "had ended before"}`,
          );
        }
      }),
    );
  addCopy(sessions);
}

async function withSource(flags: Flags, run: (source: SessionSource) => Promise<void>): Promise<void> {
  if (flags.from.startsWith("memory:")) {
    throw invalidOption("the sessions of memory: are those of one process; ask the server that has them");
  }
  const { openSource } = await import("../rollout/session-source.ts");
  const source = await openSource(flags.from, flags);
  try {
    await run(source);
  } finally {
    await source.close();
  }
}

async function list(source: SessionSource, flags: Flags): Promise<void> {
  const open = flags.open === flags.ended ? undefined : flags.open === true;
  if (!flags.json)
    print(`${"session".padEnd(22)}  ${"environment".padEnd(16)}  version  last event                ended`);
  for await (const listed of source.list(open)) print(flags.json ? JSON.stringify(listed) : sessionLine(listed));
}

async function show(source: SessionSource, id: string, flags: Flags): Promise<void> {
  const info: SessionInfo = await source.info(id);
  const state = await source.state(id, flags.version ?? info.version);
  const shown = { ...info, ...(flags.version !== undefined && { version: flags.version }), state };
  print(flags.json ? JSON.stringify(shown) : JSON.stringify(shown, null, 2));
}

async function exportAll(source: SessionSource, ids: string[]): Promise<void> {
  const chosen = [...ids];
  if (ids.length === 0) for await (const { session } of source.list(undefined)) chosen.push(session);
  for (const id of chosen) {
    const events: NumberedEvent[] = [];
    for await (const event of source.events(id)) events.push(event);
    print(JSON.stringify({ ...(await source.info(id)), events }));
  }
}

function sessionLine({ session, environment, version, touched, ended }: Listed): string {
  const time = new Date(touched).toISOString();
  return `${session.padEnd(22)}  ${environment.padEnd(16)}  ${String(version).padStart(7)}  ${time}  ${ended ?? ""}`.trimEnd();
}

function eventLine(event: NumberedEvent): string {
  const head = `${String(event.version).padStart(5)}  ${new Date(event.at).toISOString()}  ${event.type.padEnd(16)}`;
  return `${head}  ${aboutEvent(event)}`.trimEnd();
}

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
    case "session.rewound":
      return `to ${event.to}`;
    case "session.closed":
      return event.reason;
    case "session.opened":
      return event.parent ? `forked from ${event.parent.session} at ${event.parent.version}` : event.environment;
    default:
      return "";
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
