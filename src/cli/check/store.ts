// holdfast check --store: runs the store cases on a store.
import type { Checked } from "../../testing/gym-checks.ts";
import { createCounterLine } from "../counter-line.ts";
import { openStore } from "../../stores/open.ts";

export async function checkStore(url: string): Promise<Checked[]> {
  const { checkPrefix, runStoreChecks } = await import("../../testing/store-checks.ts");
  process.stderr.write(
    `This writes sessions whose names start with ${checkPrefix} and deletes them again. Nothing else is touched, but all\n` +
      "sessions are listed many times: take an empty store, or one for tests.\n",
  );
  const line = createCounterLine("cases tried");
  try {
    return await runStoreChecks(
      () => openStore(url),
      () => line.add(),
    );
  } finally {
    line.end();
  }
}
