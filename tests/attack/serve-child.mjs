// Serves a counter from a process that starts faster than the command: serve-child.mjs serve DIST STORE [IDLE].
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [dist = "", url = "", idle = ""] = process.argv.slice(3);
const load = (/** @type {string} */ file) => import(pathToFileURL(join(dist, file)).href);
const [{ defineEnvironment, tool }, { serve }, { openStore }] = await Promise.all(
  ["index.js", "server/serve.js", "stores/open.js"].map(load),
);

const counter = defineEnvironment({
  name: "counter",
  seed: () => ({ count: 0 }),
  tools: {
    increment_counter: tool({
      description: "Add to the counter.",
      run: (/** @type {{ state: { count: number } }} */ { state }, /** @type {{ count: number }} */ { count }) => {
        state.count += count;
        return { success: true };
      },
    }),
  },
});

const store = await openStore(url);
const serving = await serve({ environments: [counter], store, port: 0, log: { what: "none" }, idle: Number(idle) });
console.log(`listening on ${serving.url}`);
