// What one serving process is made of: its environments, its store and its server, opened and closed together.
import { serve, type ServeOptions, type Serving } from "../serve.ts";
import { load } from "./load.ts";
import { openStore } from "./store.ts";

interface ServingFlags {
  port: number;
  host: string;
  store: string;
  idle?: number;
  maxSessions?: number;
  log: "none" | "failures" | "all";
  token: string | undefined;
  peers?: ServeOptions["peers"];
}

export async function open(targets: string[], flags: ServingFlags): Promise<Serving> {
  const { store: url, log, ...rest } = flags;
  const environments = [];
  for (const target of targets) environments.push((await load(target)).environment);
  const store = await openStore(url);
  try {
    const secret = process.env["HOLDFAST_SECRET"];
    const serving = await serve({ ...rest, environments, store, secret, log: { what: log } });
    return {
      ...serving,
      async close() {
        await serving.close();
        await store.close();
      },
    };
  } catch (thrown) {
    await store.close();
    throw thrown;
  }
}
