import { availableParallelism } from "node:os";
import { defineConfig, type TestProjectConfiguration } from "vitest/config";
import { runs } from "./tests/runs.ts";

/** The folders whose tests start servers or processes. All others are unit tests, which need neither those nor a build. */
export const folders = { stores: ["stores", "queue"], e2e: ["cli", "e2e", "compat"], attack: ["attack"] };

const project = (name: string, include: string[], exclude: string[] = []): TestProjectConfiguration => ({
  ssr: { resolve: { conditions: ["holdfast-source"] } },
  test: {
    name,
    include,
    exclude,
    setupFiles: ["tests/patterns.ts"],
    // One more than processors: many tests wait for servers, locks and time-outs.
    maxWorkers: availableParallelism() + 1,
    testTimeout: Math.max(60_000, runs(60_000)),
    hookTimeout: 60_000,
    expect: { poll: { timeout: 20_000 } },
  },
});

const filesIn = (names: string[]): string[] => names.map((name) => `tests/${name}/**/*.test.ts`);

export default defineConfig({
  test: {
    globalSetup: ["tests/global-setup.ts"],
    // A test without this tag runs in `npm test`, a test with it in `npm run test:full`: see tools/test.mjs.
    tags: [{ name: "full", description: "Too long, or on too many stores, for npm test." }],
    projects: [
      project("unit", ["tests/**/*.test.ts"], filesIn(Object.values(folders).flat())),
      project("stores", filesIn(folders.stores)),
      project("e2e", filesIn(folders.e2e)),
      project("attack", filesIn(folders.attack)),
    ],
  },
});
