// collectionsProtocol(): describes a whole server to the viewer, under /v1: environments, agents, and collections row
// by row.
import { HoldfastError } from "../core/errors.ts";
import { notAllowed, type Protocol, type Reply, type Request } from "../core/protocol.ts";
import { ok } from "./http/route.ts";
import type { About, RowSummary, Collection, WholeRow } from "../rollout/collection-view.ts";
import type { Curve } from "../rollout/curve-series.ts";

export interface CollectionsProtocolOptions {
  about: Omit<About, "runs">;
  collections: readonly Collection[];
  /** Reads training runs' curves. Default: there are none. */
  curves?: (() => Promise<Curve[]>) | undefined;
}

/**
 * Serves /v1/about, and collections row by row.
 *
 * @example
 * const protocol = collectionsProtocol({ about, collections: [openCollection(details)] });
 * await protocol.handle({ method: "GET", path: "/v1/runs/0/rows", query, headers: {}, body: undefined, signal });
 */
export function collectionsProtocol({ about, collections, curves }: CollectionsProtocolOptions): Protocol {
  const named = new Map(collections.map((collection) => [collection.details.run, collection]));

  async function replyTo({ method, path, query, signal }: Request): Promise<Reply> {
    if (method !== "GET") throw notAllowed(path, method, ["GET"]);
    if (path === "/v1/about") return ok({ ...about, runs: collections.map(toAbout) } satisfies About);
    if (path === "/v1/curves") return ok({ curves: (await curves?.()) ?? [] });
    const [, name, rest, number] = /^\/v1\/runs\/([^/]+)(?:\/(rows|search|totals)(?:\/([^/]+))?)?$/.exec(path) ?? [];
    if (name === undefined || (number !== undefined && rest !== "rows"))
      throw missing("the paths of a run are /v1/runs/{run} and its subpaths /rows, /rows/{row}, /search and /totals");
    const collection = named.get(name);
    if (!collection) throw missing(`run ${name.slice(0, 100)} not found; /v1/about lists the runs of this server`);
    if (rest === undefined) return ok(collection.details);
    if (rest === "totals") return ok(await collection.totals(signal));
    if (rest === "search") return streamed(collection.search(query.get("text") ?? ""));
    if (number === undefined) return streamed(collection.rows());
    const row = /^\d{1,15}$/.test(number) ? await collection.row(Number(number)) : undefined;
    if (!row) throw missing(`the run ${name} has no row ${number.slice(0, 100)}`);
    return ok({ row } satisfies WholeRow);
  }

  return {
    name: "runs",
    handle: (request) => (/^\/v1\/(about$|curves$|runs(\/|$))/.test(request.path) ? replyTo(request) : undefined),
  };
}

const lines = "application/x-ndjson";

const streamed = (batches: AsyncIterable<RowSummary[] | number[]>): Reply => ({
  status: 200,
  headers: { "content-type": lines },
  stream: toLines(batches),
});

async function* toLines(batches: AsyncIterable<RowSummary[] | number[]>): AsyncGenerator<string, void, undefined> {
  for await (const batch of batches) yield `${JSON.stringify(batch)}\n`;
}

const toAbout = ({ details: { run, name, file, environment, model } }: Collection): About["runs"][number] => ({
  run,
  name,
  file,
  environment,
  model,
});

const missing = (message: string): HoldfastError => new HoldfastError("not_found", message);
