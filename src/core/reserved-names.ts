// Names that servers and their clients use. Tools and environments cannot have these names.

/** RESERVED: verbs of a session, lifecycle calls of gym servers, and paths that answer every method. */
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
 * Pages respond only to GET and tools only to POST, so a tool may share a page's name. An environment may not. `s` is
 * the start of `/s/TOKEN/mcp`.
 */
const pages = ["docs", "view", "openapi.json", "s"];

const tools = new Set(reservedToolNames);
const paths = new Set([...reservedToolNames, ...pages]);

/** Checks a tool's name, whether it belongs to an environment here or to a gym server elsewhere. */
export const isReservedTool = (name: string): boolean => tools.has(name);

/** Checks the first segment of a path, such as the name under which an environment is served. */
export const isReservedPath = (name: string): boolean => paths.has(name);
