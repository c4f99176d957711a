// The official conformance tool of MCP against a server on a port. It needs a newer Node, which comes from npm with it.
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defineEnvironment, memoryStore, tool } from "holdfast";
import { serve } from "holdfast/serve";
import { expect, test } from "vitest";
import { z } from "zod";

const environment = defineEnvironment({
  name: "conformance",
  state: z.object({ calls: z.number().default(0) }),
  unseeded: "defaults",
  tools: {
    test_simple_text: tool({ description: "Give a text.", run: () => "This is a simple text response for testing." }),
    test_error_handling: tool({
      description: "Fail.",
      run: () => {
        throw new Error("This tool intentionally returns an error for testing");
      },
    }),
  },
  verify: () => 0,
});

/**
 * Scenarios by the revision of MCP. Some scenarios are missing because they need diagnostic tools that Holdfast cannot have.
 * Those tools answer with images, audio or resources, log, or ask the client: `tools-call-image`, `tools-call-audio`,
 * `tools-call-sampling`, `tools-call-elicitation`, `input-required-result-*`, `tasks-*`, `server-sse-*`. Others test resources,
 * prompts, completion and skills, which no server of Holdfast has; `caching` and `json-schema-2020-12` need them too.
 */
const scenarios: { [revision: string]: string[] } = {
  "2025-11-25": [
    "server-initialize",
    "server-session-lifecycle",
    "ping",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-error",
    "dns-rebinding-protection",
  ],
  "2026-07-28": [
    "server-stateless",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-error",
    "http-header-validation",
    "dns-rebinding-protection",
  ],
};

/** Checks that need a tool of a server which asks its client for more, logs, or streams: `test_missing_capability` and others. */
const diagnostic = new Set([
  "sep-2575-server-rejects-undeclared-capability",
  "sep-2575-missing-capability-http-400",
  "sep-2575-http-server-no-independent-requests-on-stream",
  "sep-2575-server-no-log-without-loglevel",
]);

interface Check {
  id: string;
  status: string;
  errorMessage?: string;
}

/** npm puts this Node before ours for programs of the other package. */
const packages = [`node-${process.platform}-${process.arch}@24`, "@modelcontextprotocol/conformance@0.2.0-alpha.12"];

test("passes the scenarios of the conformance tool", { tags: ["full"], timeout: 300_000 }, async () => {
  const { url, close } = await serve({
    environments: [environment],
    store: memoryStore(),
    port: 0,
    log: { what: "none" },
  });
  try {
    for (const [revision, names] of Object.entries(scenarios)) {
      for (const name of names) {
        // In the stateless era only a bound client calls tools.
        const path = revision === "2026-07-28" ? await openPath(url) : "/mcp";
        const checks = await run(name, revision, `${url}${path}`);
        const failed = checks.filter(({ status, id }) => status === "FAILURE" && !diagnostic.has(id));
        expect(failed, `${name} of ${revision}`).toEqual([]);
        expect(checks.filter(({ status }) => status === "SUCCESS").length, name).toBeGreaterThan(0);
      }
    }
  } finally {
    await close();
  }
});

async function openPath(url: string): Promise<string> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}/v1/sessions`, { method: "POST", body: "{}", headers });
  return ((await response.json()) as { mcp: { bound_url_path: string } }).mcp.bound_url_path;
}

/** Runs one scenario and returns its checks. */
async function run(scenario: string, revision: string, url: string): Promise<Check[]> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-mcp-"));
  try {
    const server = ["conformance", "server", "--url", url, "--scenario", scenario, "--spec-version", revision];
    const args = ["exec", "--yes", ...packages.map((name) => `--package=${name}`), "--", ...server, "-o", folder];
    const printed = await new Promise<string>((resolve) => {
      execFile("npm", args, { cwd: folder }, (_, stdout, stderr) => resolve(stdout + stderr));
    });
    const [result] = await readdir(folder);
    if (result === undefined) throw new Error(`the conformance tool has no result: ${printed}`);
    return JSON.parse(await readFile(join(folder, result, "checks.json"), "utf8")) as Check[];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
