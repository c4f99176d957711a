// HarnessServer: opens a server that gives harnesses their tools and their model. `holdfast collect` passes it in,
// because servers are in a higher layer.
import type { Model, ModelRequest } from "../../core/model.ts";
import type { ModelLimits } from "../../core/model-exchange.ts";
import type { Sessions } from "../../core/sessions.ts";
import type { Store } from "../../core/store.ts";

/** The model that answers a session's harness. */
export interface HarnessModel {
  model: Model;
  /** Fields for every request. */
  settings: Partial<ModelRequest>;
  limits: ModelLimits;
}

/** Where a harness reaches its session. */
export interface HarnessAddress {
  /** URL of the environment's tools, as an MCP server. */
  mcp: string;
  /** Base URL of the model, up to `/v1`. */
  model: string;
  /** API key of the model. It is also part of both URLs. */
  key: string;
}

export interface RunningServer {
  /** Returns a session's address, for all tools or only some. */
  address(session: string, tools?: readonly string[]): HarnessAddress;
  close(): Promise<void>;
}

/** Serves an environment's tools and models on this machine. */
export type HarnessServer = (served: {
  sessions: Sessions;
  store: Store;
  modelFor(session: string): HarnessModel | undefined;
}) => Promise<RunningServer>;
