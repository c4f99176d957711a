// A store as a separate service: the contract of docs/http-store.md over SQLite. Yours would use your database.
import { timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { openDatabase, type Row } from "./database.ts";

interface Commit {
  session: string;
  version: number;
  seen?: number;
  entries: { body: string; at: number; key?: string }[];
  heading?: { environment: string; opened: number; parent?: { session: string; version: number }; ended?: string };
  snapshot?: { version: number; body: string };
}
interface Listing {
  environment?: string;
  open?: boolean;
  openedBefore?: number;
  idleBefore?: number;
  after?: string;
  limit?: number;
  cursor?: string;
}

const largestRequest = 256 * 1024 * 1024;
const largestPage = 512;

class Refusal extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    [this.status, this.code] = [status, code];
  }
}

/**
 * Ids, keys and names can be any string, even with NUL characters, which few databases accept. They are stored as JSON,
 * which escapes NUL.
 */
function kept(text: string): string {
  if (typeof text !== "string") throw new TypeError("ids, keys and names are text");
  return JSON.stringify(text);
}

function createVerbs(file: string) {
  const { one, all, run, transaction, close } = openDatabase(file);

  const rowOf = (session: string): Row | undefined => one("SELECT * FROM sessions WHERE id = ?", kept(session));

  /** Returns the answer to a commit without applying it. */
  function judge({ session, version, seen, entries }: Commit): string {
    const row = rowOf(session);
    const isTaken = ({ key }: { key?: string }): boolean =>
      row !== undefined &&
      key !== undefined &&
      one("SELECT 1 FROM entries WHERE session = ? AND key = ?", row.n, kept(key)) !== undefined;
    if (entries.some(isTaken)) return "duplicate";
    if (row && seen !== undefined && row.touched !== seen) return "conflict";
    return (row?.version ?? 0) === version ? "ok" : "conflict";
  }

  function write({ session, version, entries, heading, snapshot }: Commit): void {
    if (version === 0 && !heading) throw new Refusal(400, "invalid_request", "a log is opened with a heading");
    if (version === 0) run("INSERT INTO sessions (id) VALUES (?)", kept(session));
    const { n } = rowOf(session) as Row;
    let turn = 0;
    for (const [index, { key, body, at }] of entries.entries()) {
      const values = [n, version + 1 + index, key === undefined ? null : kept(key), body, at];
      turn = run("INSERT INTO entries (session, version, key, body, at) VALUES (?, ?, ?, ?, ?)", ...values);
    }
    const end = [version + entries.length, entries.at(-1)?.at ?? 0, turn];
    run("UPDATE sessions SET version = ?, touched = ?, turn = ? WHERE n = ?", ...end, n);
    if (snapshot) run("INSERT OR IGNORE INTO snapshots VALUES (?, ?, ?)", n, snapshot.version, snapshot.body);
    if (heading) {
      const values = [kept(heading.environment), heading.opened, heading.ended ? 1 : 0, JSON.stringify(heading)];
      run("UPDATE sessions SET environment = ?, opened = ?, ended = ?, heading = ? WHERE n = ?", ...values, n);
    }
  }

  /**
   * Returns a page of the listing. The cursor holds where the listing continues and where it ends.
   * Sessions opened or touched after the start are omitted, so that the listing ends and has no session twice.
   */
  function list({ environment, open, openedBefore, idleBefore, after, limit = largestPage, cursor }: Listing) {
    const last = (table: string): number => one("SELECT seq FROM sqlite_sequence WHERE name = ?", table)?.seq ?? 0;
    const isIdle = idleBefore !== undefined;
    const start = after === undefined ? undefined : rowOf(after);
    if (after !== undefined && start === undefined && cursor === undefined) {
      throw new Refusal(404, "session_not_found", `there is no session ${kept(after)} to list after`);
    }
    const begin = { touched: -1e300, n: start?.n ?? 0, end: last(isIdle ? "entries" : "sessions") };
    const { touched, n, end } = cursor === undefined ? begin : (JSON.parse(cursor) as typeof begin);
    const conditions = isIdle ? ["turn <= ?", "touched < ?", "(touched, n) > (?, ?)"] : ["n <= ?", "n > ?"];
    const values: (string | number)[] = isIdle ? [end, idleBefore, touched, n] : [end, n];
    const only = (condition: string, value: string | number | undefined): void => {
      if (value === undefined) return;
      conditions.push(condition);
      values.push(value);
    };
    only("environment = ?", environment === undefined ? undefined : kept(environment));
    only("ended = ?", open === undefined ? undefined : Number(!open));
    only("opened < ?", openedBefore);
    const size = Math.min(limit, largestPage);
    const order = isIdle ? "touched, n" : "n";
    const rows = all(
      `SELECT * FROM sessions WHERE ${conditions.join(" AND ")} ORDER BY ${order} LIMIT ?`,
      ...values,
      size,
    );
    const final = rows.length < size ? undefined : rows.at(-1);
    return {
      sessions: rows.map(({ id, version, touched, heading }) => {
        return { session: JSON.parse(id) as string, version, touched, ...(JSON.parse(heading) as object) };
      }),
      next: final ? JSON.stringify({ touched: final.touched, n: final.n, end }) : null,
    };
  }

  const toEntry = ({ version, body, at, key }: Row): object => ({
    version,
    body,
    ...(at !== null && { at }),
    ...(key !== null && { key: JSON.parse(key) as string }),
  });

  const entriesOf = (n: number, after: number, upTo: number, limit = -1): object[] =>
    all(
      "SELECT * FROM entries WHERE session = ? AND version > ? AND version <= ? ORDER BY version LIMIT ?",
      n,
      after,
      upTo,
      limit,
    ).map(toEntry);
  const forever = Number.MAX_SAFE_INTEGER;

  return {
    close,
    transaction,
    verbs: {
      append({ commits }: { commits: Commit[] }) {
        // All or none: checked first, and written only if every one is ok. The transaction excludes other writers.
        const answers = new Set(commits.map(judge));
        const result = ["duplicate", "conflict"].find((answer) => answers.has(answer)) ?? "ok";
        if (result === "ok") commits.forEach(write);
        return { result };
      },
      read({ session, after, limit }: { session: string; after: number; limit?: number }) {
        const row = rowOf(session);
        return { entries: row ? entriesOf(row.n, after, forever, limit) : null };
      },
      load({ session, version = forever }: { session: string; version?: number }) {
        const row = rowOf(session);
        if (!row) return { entries: null };
        const newest = "SELECT version, body FROM snapshots WHERE session = ? AND version <= ? ORDER BY version DESC";
        const snapshot = one(newest, row.n, version);
        return { snapshot, entries: entriesOf(row.n, snapshot?.version ?? 0, version) };
      },
      find({ session, key }: { session: string; key: string }) {
        const keyed = one("SELECT * FROM entries WHERE session = ? AND key = ?", rowOf(session)?.n ?? 0, kept(key));
        return { entry: keyed ? toEntry(keyed) : null };
      },
      list,
      count({ environment }: { environment: string }) {
        const open = "SELECT count(*) AS n FROM sessions WHERE environment = ? AND ended = 0";
        return { count: one(open, kept(environment))?.n };
      },
      delete({ session, version, seen }: { session: string; version?: number; seen?: number }) {
        const row = rowOf(session);
        // If the expected end of the log is given, a log with another end stays.
        const isMeant = row && row.version === (version ?? row.version) && row.touched === (seen ?? row.touched);
        if (isMeant) {
          for (const table of ["entries", "snapshots"]) run(`DELETE FROM ${table} WHERE session = ?`, row.n);
          run("DELETE FROM sessions WHERE n = ?", row.n);
        }
        return { deleted: isMeant === true };
      },
    },
  };
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > largestRequest) throw new Refusal(413, "body_too_large", "the request is too large");
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString());
  } catch {
    throw new Refusal(400, "invalid_json", "the request is no JSON");
  }
}

/** Creates a store server with its logs in a file. Without a token, anyone who can connect can read and change logs. */
export function createStoreServer({ file, token }: { file: string; token?: string | undefined }): Server {
  const { verbs, transaction, close } = createVerbs(file);
  const secret = token ? Buffer.from(`Bearer ${token}`) : undefined;

  async function answer(request: IncomingMessage): Promise<unknown> {
    const given = Buffer.from(request.headers.authorization ?? "");
    if (secret && !(given.length === secret.length && timingSafeEqual(given, secret))) {
      throw new Refusal(401, "unauthorized", "the bearer token is missing, or another one");
    }
    const verb = (request.url ?? "").slice(1);
    if (verb === "about" && request.method === "GET") return { format: 1, persistent: true };
    if (request.method !== "POST" || !Object.hasOwn(verbs, verb)) {
      throw new Refusal(404, "not_found", `there is no ${request.method} ${request.url}`);
    }
    const body = await bodyOf(request);
    return transaction(() => (verbs[verb as keyof typeof verbs] as (body: unknown) => unknown)(body));
  }

  const server = createServer(async (request, response) => {
    const send = (status: number, value: unknown): void => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
    };
    try {
      send(200, await answer(request));
    } catch (thrown) {
      const { message } = thrown as Error;
      const isOdd = thrown instanceof TypeError;
      const { status, code } =
        thrown instanceof Refusal
          ? thrown
          : { status: isOdd ? 400 : 503, code: isOdd ? "invalid_request" : "store_failed" };
      // The rest of a refused request is not read.
      if (!request.complete) response.setHeader("connection", "close");
      send(status, { error: { code, message, detail: {} } });
    }
  });
  return server.on("close", close);
}
