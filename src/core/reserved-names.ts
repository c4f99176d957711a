// Names that servers and their clients use. Tools and environments cannot have these names.

/** RESERVED: operations of a session, lifecycle calls of gym servers, and paths that answer every method. */
export const reservedToolNames = [
  "seed",
  "seed_session",
  "verify",
  "close",
  "close_session",
  "fork",
  "rewind",
  "replay",
  "reset",
  "step",
  "state",
  "run",
  "aggregate_metrics",
  "reverify_mode",
  "mcp",
  "healthz",
  "readyz",
  "metrics",
  "ng-rollout",
  "v1",
];

/**
 * Pages respond only to GET and tools only to POST, so a tool may share a page's name. An environment may not have that
 * name. `s` is the start of `/s/TOKEN/mcp`, and `m` of `/m/TOKEN/v1`; `openenv` and `ors` are the starts of those
 * protocols' paths.
 */
const pages = ["docs", "view", "openapi.json", "s", "m", "openenv", "ors"];

const tools = new Set(reservedToolNames);
const paths = new Set([...reservedToolNames, ...pages]);

/** Returns whether tools cannot have a name, neither in an environment nor on a gym server. */
export const isReservedTool = (name: string): boolean => tools.has(name);

/** Returns whether a path's first segment is reserved, so that no environment can be served under it. */
export const isReservedPath = (name: string): boolean => paths.has(name);
