// The commands as processes: their output, errors and exit codes.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSessions, defineAgent, scriptedModel, type Store } from "holdfast";
import { sqliteStore } from "holdfast/stores/sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { finish, gate } from "../agent/engine.ts";
import { createClient, run, start, startServing } from "../e2e/serve-process.ts";

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-cli-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

describe("every command", () => {
  const commands = [
    ["init"],
    ["serve"],
    ["run"],
    ["collect"],
    ["worker"],
    ["queue"],
    ["check"],
    ["sessions"],
    ["runs"],
    ["metrics"],
    ["show"],
    ["view"],
    ["tasks"],
    ["export"],
    ["reverify"],
    ["replay"],
    ["token"],
    ["errors"],
  ];
  for (const verb of ["status", "clear"]) commands.push(["queue", verb]);
  for (const verb of ["check", "sample", "split", "render"]) commands.push(["tasks", verb]);
  for (const verb of ["list", "show", "events", "fork", "rewind", "replay", "export", "close", "delete", "copy"]) {
    commands.push(["sessions", verb]);
  }

  test.each(commands)("%s %s has help with an example that fits into 80 and 60 columns", async (...words) => {
    const wordsIn = (text: string): string => text.replaceAll(/\s|\\/g, "");
    const { code, stdout } = await run(...words, "--help");
    expect(code).toBe(0);
    expect(stdout).toContain(`$ npx holdfast ${words[0]}`);
    // An installed package has no examples: the commands work in a project that `init` made.
    expect(stdout).not.toContain("examples/");
    expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
    const narrow = await (await start([...words, "--help"], { env: { COLUMNS: "60" } })).ended;
    // A word may be longer than its column.
    expect(narrow.stdout.split("\n").filter((line) => line.length > 60 && !/^ *\S+$/.test(line))).toEqual([]);
    expect(wordsIn(narrow.stdout)).toBe(wordsIn(stdout));
  });

  test("the version is that of the package", async () => {
    const { version } = JSON.parse(await readFile(new URL("../../package.json", import.meta.url), "utf8")) as {
      version: string;
    };
    for (const word of ["--version", "version"]) {
      expect(await run(word)).toMatchObject({ code: 0, stdout: `${version}\n` });
    }
  });

  test.each(["1", "2"])("a port in use is named, with the way to choose another (workers: %s)", async (workers) => {
    const taken = createServer();
    await new Promise<void>((resolve) => void taken.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void taken.close());
    const { port } = taken.address() as AddressInfo;
    const store = `sqlite:${join(await newFolder(), "sessions.db")}`;
    const flags = ["--port", String(port), "--workers", workers, "--store", store];
    expect(await run("serve", "examples/counter", ...flags)).toEqual({
      code: 1,
      stdout: "",
      stderr: `invalid_option: another program uses port ${port} on 127.0.0.1; choose another --port, or --port 0 for a free one\n`,
    });
  });

  const refusals: [string[], string][] = [
    [["serve", "nowhere/at-all.ts"], "cannot_load: nowhere/at-all.ts does not exist\n"],
    [
      ["serve", "examples/counter", "--store", "ftp://me:secret@there"],
      'invalid_option: "ftp://…@there" is not a valid store URL; ',
    ],
    [["view", "redis://me:secret@there/"], "cannot_load: the file redis://me@there/ does not exist\n"],
    [["view", "redis://me:secret@there/$&"], "cannot_load: the file redis://me@there/$& does not exist\n"],
    [["check", "http://me:secret@127.0.0.1:1/"], "cannot_load: no server answers at http://127.0.0.1:1"],
    [
      ["serve", "examples/counter", "--idle=redis://me:secret@there/"],
      "invalid_option: option '--idle <duration>' argument 'redis://me@there/' is invalid.",
    ],
    [["serve", "examples/counter", "--cold-after", "1h"], "invalid_option: --cold-after needs --cold"],
    [
      ["serve", "examples/counter", "--store", "memory:", "--cold", "sqlite:cold.db"],
      "invalid_option: --cold needs a persistent --store",
    ],
    [
      ["serve", "examples/counter", "--workers", "2"],
      "invalid_option: --workers needs a store that processes can share",
    ],
    [
      ["serve", "examples/counter", "examples/counter", "--port", "0"],
      "invalid_option: two environments are called counter",
    ],
    [
      ["serve", "examples/counter", "--port", "http"],
      "invalid_option: option '--port <number>' argument 'http' is invalid.",
    ],
    [
      ["serve", "examples/counter", "--idle", "soon"],
      "invalid_option: option '--idle <duration>' argument 'soon' is invalid.",
    ],
    [["check", "http://127.0.0.1:1"], "cannot_load: no server answers at http://127.0.0.1:1: connection refused"],
    [
      ["check", "http://127.0.0.1:1", "--tool", "x"],
      "cannot_load: no server answers at http://127.0.0.1:1: connection",
    ],
    [
      ["sessions", "list", "--store", "memory:"],
      "invalid_option: memory: sessions exist only inside the server's process",
    ],
    [["sessions", "show", "x", "--store", "http://127.0.0.1:1"], "cannot_load: http://127.0.0.1:1 does not answer"],
    [["sessions", "rewind", "x", "--store", "http://127.0.0.1:1"], "invalid_option: pass --version"],
    [
      ["sessions", "list", "--store", "http://127.0.0.1:1", "--label", "x"],
      "invalid_option: option '--label <name=value>'",
    ],
    [["sessions", "list"], "invalid_option: name a store or a server with --store, as in sqlite:sessions.db"],
    // The name of --store in earlier versions.
    [
      ["sessions", "list", "--from", "memory:"],
      "invalid_option: memory: sessions exist only inside the server's process",
    ],
    [["collect", "."], "invalid_option: --out <file> is required (--help lists the options)\n"],
    // A misspelt option is reported first: it may be the required one.
    [["collect", ".", "--ouput", "a.jsonl"], "invalid_option: unknown option '--ouput'\n(Did you mean --out?)"],
    [["tasks", "split", "tasks.jsonl", "--prats", "a=1"], "invalid_option: unknown option '--prats'"],
    [["frobnicate"], "invalid_option: unknown command 'frobnicate'"],
  ];
  test.each(refusals)("%j reports the error in one line, and exits 1", async (args, message) => {
    const { code, stdout, stderr } = await run(...args);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr.slice(0, message.length)).toBe(message);
    expect(stderr).not.toMatch(/\n\s+at /);
  });
});

test("a token opens the conversations of one user, and a list shows their titles", async () => {
  const { url } = await startServing(["examples/concierge", "--port", "0", "--token", "let-me-in"]);
  const flags = ["--server", url, "--token", "let-me-in"];
  const { code, stdout } = await run("token", "ann", ...flags, "--expires", "1h");
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^[\w.-]+\n$/)]);
  const headers = { authorization: `Bearer ${stdout.trim()}`, "content-type": "application/json" };
  const body = JSON.stringify({ labels: { title: "Breakfast" } });
  const opened = await fetch(`${url}/v1/sessions`, { method: "POST", headers, body });
  expect(await opened.json()).toMatchObject({ user: "ann" });
  const own = await run("sessions", "list", "--store", url, "--token", stdout.trim());
  expect(own.stdout).toMatch(/ title\n.* agent:concierge .* Breakfast\n$/s);
  expect((await run("token", "ann", "--server", url, "--token", "let-me-on")).stderr).toContain("unauthorized");
  expect(JSON.parse((await run("token", "ann", ...flags, "--json")).stdout)).toMatchObject({ user: "ann" });
});

test("with a token, /v1 requires it, and the gym protocol does not", async () => {
  const { url } = await startServing(["examples/counter", "--port", "0", "--token", "let-me-in"]);
  expect((await createClient(url).post("/seed_session", { initial_count: 1 })).status).toBe(200);
  expect((await fetch(`${url}/v1/sessions`)).status).toBe(401);
  expect((await run("sessions", "list", "--store", url)).code).toBe(1);
  const { code, stdout } = await run("sessions", "list", "--store", url, "--token", "let-me-in", "--json");
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ environment: "counter", version: 2 });
});

test("sessions of a store and of a server are listed, shown, forked, exported and deleted alike", async () => {
  const store = `sqlite:${join(await newFolder(), "counter.db")}`;
  const { url } = await startServing(["examples/counter", "--port", "0", "--store", store]);
  const client = createClient(url);
  const { body } = await client.post("/seed_session", { initial_count: 3 });
  const id = body["session_id"] as string;
  await client.post("/increment_counter", { count: 2 });

  for (const from of [store, url]) {
    const ask = async (...args: string[]): Promise<unknown[]> => {
      const { code, stdout, stderr } = await run("sessions", ...args, "--store", from, "--json");
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      return stdout
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as unknown);
    };
    expect(await ask("list", "--open")).toMatchObject([{ session: id, environment: "counter", version: 3 }]);
    expect(await ask("show", id)).toMatchObject([{ session: id, version: 3, state: { count: 5 } }]);
    expect(await ask("show", id, "--version", "2")).toMatchObject([{ session: id, version: 2, state: { count: 3 } }]);
    const events = await ask("events", id);
    expect(events).toMatchObject([{ type: "session.opened" }, { type: "session.seeded" }, { type: "tool.called" }]);
    const [child] = (await ask("fork", id, "--version", "2")) as { session: string }[];
    expect(child).toMatchObject({ parent: { session: id, version: 2 } });
    expect((await ask("export")).length).toBe(2);
    expect(await ask("export", id)).toMatchObject([{ session: id, events }]);
    const forked = child?.session as string;
    expect(await ask("delete", forked)).toEqual([{ session: forked, deleted: true }]);
    // A server closes it, and its log stays.
    if (from === url) await run("sessions", "delete", forked, "--store", store);
  }
  const { code, stderr } = await run("sessions", "show", "nobody", "--store", store);
  expect({ code, stderr }).toEqual({ code: 1, stderr: "session_not_found: there is no session nobody\n" });
  const { stdout } = await run("sessions", "events", id, "--store", store);
  expect(stdout.trimEnd().split("\n").at(-1)).toContain('increment_counter {"count":2}');
});

test("conversations of a store and of a server take the same commands as episodes", async () => {
  const store = `sqlite:${join(await newFolder(), "concierge.db")}`;
  const { url } = await startServing(["examples/counter", "examples/concierge", "--port", "0", "--store", store]);
  const post = async (path: string, body: object): Promise<{ session: string }> => {
    const headers = { "content-type": "application/json" };
    const sent = await fetch(`${url}/concierge/v1/sessions${path}`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
    return (await sent.json()) as { session: string };
  };
  await fetch(`${url}/counter/v1/sessions`, { method: "POST" });
  for (const from of [store, url]) {
    const { session: id } = await post("", { user: "ann", labels: { place: from } });
    await post(`/${id}/run`, { message: "hello" });
    const agent = ["--store", from, "--agent", "concierge"];
    const ask = async (...args: string[]): Promise<unknown[]> => {
      const { code, stdout, stderr } = await run("sessions", ...args, ...agent, "--json");
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      const lines = stdout.split("\n").filter((line) => line !== "");
      return lines.map((line) => JSON.parse(line) as unknown);
    };
    const label = ["--label", `place=${from}`];
    const row = { session: id, environment: "agent:concierge", version: 4 };
    expect(await ask("list", "--open", "--user", "ann", ...label)).toMatchObject([row]);
    expect(await ask("list", "--user", "bob", ...label)).toEqual([]);
    expect(await ask("show", id)).toMatchObject([{ ...row, user: "ann", state: {} }]);
    const events = (await ask("events", id)) as { type: string; invocation?: string }[];
    expect(events).toHaveLength(4);
    const [child] = (await ask("fork", id, "--version", "2")) as { session: string }[];
    expect(child).toMatchObject({ version: 3, user: "ann", parent: { session: id, version: 2 } });
    expect(await ask("rewind", id, "--before", String(events[1]?.invocation))).toMatchObject([{ version: 5 }]);
    expect(await ask("rewind", id, "--version", "4")).toMatchObject([{ version: 6 }]);
    const code = from === store ? ["--code", "examples/concierge"] : [];
    expect(await ask("replay", id, ...code)).toEqual([{ session: id, same: true, events: 6 }]);
    const replayed = (await ask("replay", ...code)) as { session: string; same: boolean }[];
    expect(replayed.map(({ session }) => session)).toEqual(expect.arrayContaining([id, child?.session]));
    expect(replayed.every(({ same }) => same)).toBe(true);
    expect(await ask("export", id)).toMatchObject([{ session: id, version: 6, events: { length: 6 } }]);
    const forked = child?.session as string;
    expect(await ask("close", forked)).toEqual([{ session: forked, closed: true }]);
    expect(await ask("close", forked)).toEqual([{ session: forked, closed: false }]);
    expect(await ask("delete", id)).toEqual([{ session: id, deleted: true }]);
  }
  const listed = await run("sessions", "list", "--store", store);
  expect(listed.stdout).toMatch(/ counter .*\n.* agent:concierge /s);
  const { code, stderr } = await run("sessions", "replay", await openedIn(store), "--store", store);
  expect({ code, stderr }).toEqual({
    code: 1,
    stderr: "invalid_option: a replay needs the code of counter; name it with --code\n",
  });
});

test("a conversation whose process died in a turn is rewound and closed after its lease", async () => {
  const file = join(await newFolder(), "crashed.db");
  const sqlite = sqliteStore({ file });
  onTestFinished(() => sqlite.close());
  let isDead = false;
  const store: Store = {
    ...sqlite,
    append: (...given) => (isDead ? new Promise<never>(() => undefined) : sqlite.append(...given)),
  };
  const sessions = createSessions({ app: "crashed", store, lease: 1_000 });
  const asked = gate();
  const model = scriptedModel(() => {
    isDead = true;
    asked.open();
    return new Promise<never>(() => undefined);
  });
  const { session } = await sessions.open();
  void finish(defineAgent({ name: "agent", model }), { sessions, session, message: "hello" });
  await asked.opened;
  const from = ["--store", `sqlite:${file}`, "--agent", "crashed"];
  const rewound = await run("sessions", "rewind", session, "--version", "1", ...from);
  expect(rewound).toMatchObject({ code: 0, stdout: `${session} rewound; it is now at version 3\n`, stderr: "" });
  const closed = await run("sessions", "close", session, ...from);
  expect(closed).toMatchObject({ code: 0, stdout: `${session} closed\n`, stderr: "" });
});

/** The first session of a store. */
async function openedIn(store: string): Promise<string> {
  const { stdout } = await run("sessions", "list", "--store", store, "--json");
  return (JSON.parse(stdout.split("\n")[0] as string) as { session: string }).session;
}

describe("holdfast check", () => {
  const flags = ["--task", '{"initial_count":3}', "--tool", "increment_counter", "--input", '{"count":2}'];
  const both = [...flags, "--tool", "get_counter_value", "--input", "{}"];

  test.each(["counter", "library", "weather"])("finds no fault in the example %s", async (name) => {
    const { code, stdout } = await run("check", `examples/${name}`, "--json");
    const { results } = JSON.parse(stdout) as { results: { result: string }[] };
    expect(results.filter(({ result }) => result === "fail")).toEqual([]);
    expect(results.length).toBeGreaterThan(20);
    expect(code).toBe(0);
  });

  test("finds no fault in our own server, over its port", async () => {
    const { url } = await startServing(["examples/counter", "--port", "0"]);
    const { code, stdout } = await run("check", url, ...both);
    expect(stdout).toContain("0 failed, 1 skipped");
    expect(code).toBe(0);
  });

  test("finds the faults of a server that keeps its state in memory, with a way to reproduce them", async () => {
    const url = await carelessServer();
    const { code, stdout } = await run("check", url, ...both, "--json");
    expect(code).toBe(1);
    const { results } = JSON.parse(stdout) as {
      results: { what: string; result: string; message: string; why: string; reproduce: string[] }[];
    };
    const failed = results.filter(({ result }) => result === "fail");
    expect(failed.map(({ what }) => what)).toEqual([
      "a lost session is not answered as if it had a valid state",
      "seeding again replaces the state",
      "a tool that crashes does not lose the session",
      "a retried call id is applied once",
      "concurrent calls lose no updates",
      "invalid arguments never cause a 5xx status",
      "an altered cookie does not open the session",
      "a model cannot call verify as a tool to learn its reward",
    ]);
    for (const { why, message, reproduce } of failed) {
      expect(why).not.toBe("");
      expect(message).not.toBe("");
      expect(reproduce[0]).toContain(`curl -s -b a.jar -c a.jar -H 'content-type: application/json' '${url}/`);
    }
    const inWords = await run("check", url, ...both);
    expect(inWords.stdout).toContain("FAILED: a retried call id is applied once");
    expect(inWords.code).toBe(1);
  });
});

/**
 * A counter with the faults of the reference: its state is in a map, kept if present, and read and written with an
 * await between.
 */
async function carelessServer(): Promise<string> {
  const counts = new Map<string, number>();
  let sessions = 0;
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    let text = "";
    for await (const chunk of request) text += String(chunk);
    const body = JSON.parse(text) as { initial_count: number; count: number };
    const id = /sid=(\d+)/.exec(request.headers.cookie ?? "")?.[1] ?? String(++sessions);
    const answer = (status: number, value: unknown, cookie = true): void => {
      response.writeHead(status, cookie ? { "set-cookie": `sid=${id}; path=/` } : {}).end(JSON.stringify(value));
    };
    const count = counts.get(id) ?? 0;
    switch (request.url) {
      case "/seed_session":
        if (!counts.has(id)) counts.set(id, body.initial_count);
        return answer(200, {});
      case "/increment_counter":
        if (typeof body.count !== "number") return answer(500, "Internal Server Error", false);
        await new Promise((resolve) => setTimeout(resolve, 5));
        counts.set(id, count + body.count);
        return answer(200, { success: true });
      case "/get_counter_value":
        return answer(200, { count });
      case "/verify":
        return answer(200, { ...body, reward: 0 });
      default:
        return answer(404, { detail: "Not Found" });
    }
  };
  const server = createServer((request, response) => {
    handle(request, response).catch(() => response.writeHead(500).end("Internal Server Error"));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close().closeAllConnections());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
