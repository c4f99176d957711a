// Writes a bundle from the given files, and reports its contents.
import { join } from "node:path";
import { writeBundle } from "../../rollout/bundle.ts";
import { readLog } from "../../rollout/episode-log.ts";
import { packageVersion } from "../../server/version.ts";
import { viewerFolder } from "../../server/viewer.ts";
import { createCounterLine } from "../counter-line.ts";
import { createComplaints, note } from "../rollout-source.ts";
import { openCollections } from "../../rollout/viewed-collections.ts";

export async function runBundle(files: string[], out: string, storeUrl?: string): Promise<void> {
  const { collections, store } = await openCollections(files, storeUrl, note);
  const counting = createCounterLine("rows written");
  let long = 0;
  try {
    const written = await writeBundle({
      out,
      page: viewerFolder,
      version: packageVersion(),
      collections: collections.map(({ details }) => details),
      events: async (session) => store && readLog(store, session),
      onRow: counting.add,
      onBad: createComplaints(),
      onLongLog: () => void long++,
    });
    counting.end();
    for (const { file, rows, sessions } of written) {
      process.stdout.write(`${file}: ${rows} rows${sessions ? "" : ", without states: no store has their sessions"}\n`);
    }
    if (long > 0) note(`${long} sessions have more events than a page could show; their states are left out`);
    process.stdout.write(`Open it: ${join(out, "index.html")}\n`);
  } finally {
    counting.end();
    await store?.close();
  }
}
