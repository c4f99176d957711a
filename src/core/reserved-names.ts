// Names that servers and their clients use, and that tools and environments therefore cannot have.

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

/** Pages answer only GET and tools only POST, so a tool may share their names. An environment may not. */
const pages = ["docs", "view", "openapi.json"];

const tools = new Set(reservedToolNames);
const paths = new Set([...reservedToolNames, ...pages]);

/** Checks the name of a tool, of an environment here or of a gym server elsewhere. */
export const isReservedTool = (name: string): boolean => tools.has(name);

/** Checks the first segment of a path, such as the name under which an environment is served. */
export const isReservedPath = (name: string): boolean => paths.has(name);
