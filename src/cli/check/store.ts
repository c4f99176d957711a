// holdfast check --store: runs the store cases on a store.
import type { Checked } from "../../testing/gym-checks.ts";
import { createCounterLine } from "../counter-line.ts";
import { openStore } from "../../stores/open.ts";

export async function checkStore(url: string): Promise<Checked[]> {
  const { checkPrefix, runStoreChecks } = await import("../../testing/store-checks.ts");
  process.stderr.write(
    `This writes sessions with names that start with ${checkPrefix} and deletes them again. It changes nothing else, but\n` +
      "lists all sessions many times: use an empty store, or one for tests.\n",
  );
  const line = createCounterLine("checks run");
  try {
    return await runStoreChecks(
      () => openStore(url),
      () => line.add(),
    );
  } finally {
    line.end();
  }
}
