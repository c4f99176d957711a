// openHarnessServer(): serves an environment's tools and models to the harnesses of one collection, on this machine only.
import { randomBytes } from "node:crypto";
import { HoldfastError } from "../../core/errors.ts";
import { createBindings, mcpProtocol } from "../../protocols/mcp.ts";
import { modelProxy } from "../../protocols/model-proxy.ts";
import type { HarnessServer } from "../../rollout/harness/server.ts";
import { createApp } from "../../server/app.ts";
import { listen } from "../../server/host.ts";
import { createLog } from "../../server/log.ts";
import { createMetrics } from "../../server/metrics.ts";
import { createTokens, keysFromStore } from "../../server/tokens.ts";
import { packageVersion } from "../../server/version.ts";

/** Maximum size of a body in bytes. Conversations of harnesses are long, and contain pictures. */
const largestBody = 64 * 1024 * 1024;

/** A harness gets the token of its own session. Nothing is served without such a token. */
export const openHarnessServer: HarnessServer = async ({ sessions, store, modelFor }) => {
  const { name } = sessions.environment;
  const bindings = createBindings(name, createTokens(await keysFromStore(store)), { hasModel: true });
  const protocols = [
    modelProxy({ sessions, bindings, modelFor, noModel: over }),
    mcpProtocol({ sessions, bindings, version: packageVersion(), isBoundOnly: true }),
  ];
  const app = createApp({
    mounts: [{ prefix: `/${name}`, protocols }],
    store,
    metrics: createMetrics(),
    log: createLog({ what: "none" }),
    token: randomBytes(24).toString("base64url"),
  });
  const { url, close } = await listen(app, { port: 0, limits: { body: largestBody, values: 1_000_000 } });
  return {
    address(session, tools) {
      const { headers, bound_url_path: mcp, model_url_path: model } = bindings.address(session, tools);
      return { mcp: url + mcp, model: url + String(model), key: headers["X-NeMo-Gym-Session-Token"] as string };
    },
    close,
  };
};

const over = new HoldfastError("episode_over", "the episode has ended; its model answers no more requests");
