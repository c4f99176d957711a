// The least that a server with sessions can do, on node:http: what `http` compares with. It runs as a process of its own.
import { createHmac, randomBytes } from "node:crypto";
import { createServer } from "node:http";

/**
 * Parses the body, checks the signature once for each new token, keeps the state in a Map, and answers.
 *
 * @param {((session: string, body: string) => Promise<void>) | undefined} write stores an event before it is answered
 */
export function bareServer(write) {
  const key = randomBytes(32);
  const signed = (/** @type {string} */ id) => `${id}.${createHmac("sha256", key).update(id).digest("base64url")}`;
  /** @type {Map<string, string>} */
  const known = new Map();
  /** @type {Map<string, { count: number }>} */
  const states = new Map();

  /** @param {string} path @param {string} sent @param {Record<string, number>} body */
  function handled(path, sent, body) {
    let id = known.get(sent);
    if (id === undefined) {
      const [name = ""] = sent.split(".");
      id = signed(name) === sent ? name : randomBytes(16).toString("base64url");
      known.set(signed(id), id);
    }
    const state = states.get(id) ?? { count: 0 };
    if (path === "/seed_session") state.count = body["initial_count"] ?? 0;
    else state.count += body["count"] ?? 0;
    states.set(id, state);
    const token = known.has(sent) ? sent : signed(id);
    return { id, token, count: state.count, output: path === "/seed_session" ? {} : { success: true } };
  }

  return createServer((request, response) => {
    /** @type {Buffer[]} */
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", async () => {
      const sent = /(?:^|; )session=([^;]*)/.exec(request.headers.cookie ?? "")?.[1] ?? "";
      const input = JSON.parse(Buffer.concat(chunks).toString());
      const { id, token, count, output } = handled(request.url ?? "", sent, input);
      if (write) await write(id, eventOf(request.url ?? "", input, output, count));
      const text = JSON.stringify(output);
      response.writeHead(200, {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(text),
        "set-cookie": `session=${token}; Path=/; HttpOnly`,
      });
      response.end(text);
    });
  });
}

/**
 * The event that Holdfast writes for the same call, so that as many bytes are written.
 *
 * @param {string} path @param {object} input @param {object} output @param {number} count
 */
function eventOf(path, input, output, count) {
  const outcome = { ok: true, output };
  const delta = [{ op: "replace", path: "/count", value: count }];
  return JSON.stringify({
    type: "tool.called",
    at: Date.now(),
    episode: 1,
    tool: path.slice(1),
    input,
    outcome,
    delta,
  });
}

/**
 * Writes events to SQLite in groups: those of one turn of the event loop in one transaction, as durable as `process`.
 *
 * @param {string} file
 * @returns {Promise<(session: string, body: string) => Promise<void>>}
 */
export async function groupWriter(file) {
  /** @type {typeof import("@photostructure/sqlite")} */
  const { DatabaseSync } = process.getBuiltinModule?.("node:sqlite") ?? (await import("@photostructure/sqlite"));
  const database = new DatabaseSync(file);
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  database.exec(
    "CREATE TABLE entries (session TEXT, version INTEGER, at INTEGER, body TEXT, PRIMARY KEY (session, version)) WITHOUT ROWID",
  );
  const insert = database.prepare("INSERT INTO entries VALUES (?, ?, ?, ?)");
  /** @type {Map<string, number>} */
  const versions = new Map();
  /** @type {{ session: string, body: string, resolve: () => void }[]} */
  let waiting = [];
  const [begin, commit] = ["BEGIN IMMEDIATE", "COMMIT"].map((sql) => database.prepare(sql));
  function writeAll(/** @type {typeof waiting} */ group) {
    begin?.run();
    for (const { session, body } of group) {
      const version = (versions.get(session) ?? 0) + 1;
      versions.set(session, version);
      insert.run(session, version, Date.now(), body);
    }
    commit?.run();
  }
  function flush() {
    const group = waiting;
    waiting = [];
    writeAll(group);
    for (const { resolve } of group) resolve();
  }
  return (session, body) =>
    new Promise((resolve) => {
      if (waiting.push({ session, body, resolve }) === 1) setImmediate(flush);
    });
}
