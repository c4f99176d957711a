// `holdfast serve` as a process: with a real trace collector, with a broken one, and with none.
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { built } from "../../built.ts";
import { createClient } from "../serve-process.ts";
import { root } from "../../files.ts";
import { startCollector, type ReceivedSpan } from "./collector.ts";

// Outside the time limit of the first test.
beforeAll(() => built());

interface Served {
  url: string;
  /** Stops it. Returns its exit code, its error output and the time it took. */
  stop(): Promise<{ code: number | null; stderr: string; ms: number }>;
}

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "holdfast-telemetry-"));
  onTestFinished(() => rm(made, { recursive: true, force: true }));
  return made;
}

/** Starts the command with only these OpenTelemetry variables. */
async function command(args: string[], variables: { [name: string]: string }) {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("OTEL_"));
  const child = spawn(process.execPath, [join(await built(), "cli/main.js"), ...args], {
    cwd: root,
    env: { ...Object.fromEntries(inherited), ...variables },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  const printed = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk) => (printed.stdout += String(chunk)));
  child.stderr.on("data", (chunk) => (printed.stderr += String(chunk)));
  const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
  onTestFinished(async () => {
    try {
      process.kill(-(child.pid as number), "SIGKILL");
    } catch {
      // The process and its group have ended.
    }
    await ended;
  });
  return { child, printed, ended };
}

async function serve(variables: { [name: string]: string }, ...flags: string[]): Promise<Served> {
  const args = ["serve", "examples/counter", "--port", "0", ...flags];
  const { child, printed, ended } = await command(args, variables);
  let over = false;
  void ended.then(() => (over = true));
  for (;;) {
    const [, url] = /^listening on (\S+)\n/m.exec(printed.stdout) ?? [];
    if (url !== undefined) {
      return {
        url,
        async stop() {
          const start = performance.now();
          child.kill("SIGTERM");
          const code = await ended;
          return { code, stderr: printed.stderr, ms: performance.now() - start };
        },
      };
    }
    if (over) throw new Error(`it ended: ${printed.stderr}`);
    await sleep(20);
  }
}

const task = { initial_count: 3, expected_count: 4, responses_create_params: { input: [] } };

const childrenOf = (spans: ReceivedSpan[], parent: ReceivedSpan | undefined): ReceivedSpan[] =>
  spans.filter(({ parent: id }) => parent !== undefined && id === parent.id);

describe("with a collector", () => {
  test("the trace of a call has the client, the request, the call and its commit, and no content", async () => {
    const collector = await startCollector();
    const store = `sqlite:${join(await folder(), "s.db")}`;
    const serving = await serve(
      { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_SERVICE_NAME: "my-counter" },
      "--store",
      store,
    );
    const client = createClient(serving.url);
    expect((await client.post("/seed_session", task)).status).toBe(200);
    const trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify({ task: { initial_count: 3, expected_count: 4 } });
    const opened = await fetch(`${serving.url}/v1/sessions`, { method: "POST", headers, body });
    const { session } = (await opened.json()) as { session: string };
    const called = await fetch(`${serving.url}/v1/sessions/${session}/call`, {
      method: "POST",
      headers: { ...headers, traceparent: `00-${trace}-00f067aa0ba902b7-01` },
      body: JSON.stringify({ tool: "increment_counter", input: { count: 41_414_141 } }),
    });
    expect(called.status).toBe(200);
    await fetch(`${serving.url}/readyz`);
    // Remaining spans are sent when it stops.
    const { code } = await serving.stop();
    expect(code).toBe(0);
    const spans = collector.spans.filter((span) => span.trace === trace);
    const [request, ...more] = spans.filter(({ parent }) => parent === "00f067aa0ba902b7");
    expect(more).toEqual([]);
    expect(request).toMatchObject({
      name: "holdfast.request",
      kind: 2,
      failed: false,
      attributes: { "http.request.method": "POST", "http.response.status_code": 200 },
    });
    const [call, ...others] = childrenOf(spans, request);
    expect(others).toEqual([]);
    expect(call).toMatchObject({
      name: "holdfast.call",
      attributes: {
        "holdfast.environment": "counter",
        "holdfast.tool": "increment_counter",
        "holdfast.outcome": "ok",
        "holdfast.repeated": false,
      },
    });
    expect(childrenOf(spans, call)).toMatchObject([
      {
        name: "holdfast.commit",
        kind: 3,
        attributes: {
          "db.system.name": "sqlite",
          "holdfast.environment": "counter",
          "holdfast.entries": 1,
          "holdfast.answer": "ok",
        },
      },
    ]);
    expect(spans).toHaveLength(3);
    expect(request?.resource).toMatchObject({ "service.name": "my-counter" });
    const opening = collector.spans.find(({ name }) => name === "holdfast.open");
    expect(childrenOf(collector.spans, opening).map(({ name }) => name)).toContain("holdfast.commit");
    for (const secret of ["41414141", session]) expect(collector.raw()).not.toContain(secret);
  });

  test("a rollout of /run contains its model and calls; each of two workers sends its own spans", async () => {
    const collector = await startCollector();
    const store = `sqlite:${join(await folder(), "s.db")}`;
    const flags = ["--store", store, "--model", "scripted", "--workers", "2"];
    const serving = await serve({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/v1/traces` }, ...flags);
    const [row = ""] = (await readFile(join(root, "examples/counter/tasks.jsonl"), "utf8")).split("\n");
    const played = await fetch(`${serving.url}/run`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: row,
    });
    expect(await played.json()).toMatchObject({ reward: 1 });
    expect((await serving.stop()).code).toBe(0);
    const { spans } = collector;
    const rollout = spans.find(({ name }) => name === "holdfast.rollout");
    expect(rollout?.attributes).toMatchObject({ "holdfast.outcome": "scored", "holdfast.reward": 1 });
    const below = childrenOf(spans, rollout).map(({ name }) => name);
    expect(below.some((name) => name.startsWith("chat "))).toBe(true);
    expect(below).toContain("holdfast.call");
    expect(below).toContain("holdfast.verify");
    expect(below).toContain("holdfast.commit");
    expect(
      new Set(spans.filter((span) => span.trace === rollout?.trace).map(({ resource }) => resource["process.pid"]))
        .size,
    ).toBe(1);
  });
});

describe("with a broken collector, the server keeps serving and stops in time", { tags: ["full"] }, () => {
  async function isServed(endpoint: string): Promise<{ code: number | null; stderr: string; ms: number }> {
    // Sends at once, so that the first export fails while it serves.
    const serving = await serve({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_BSP_SCHEDULE_DELAY: "1" });
    const client = createClient(serving.url);
    await client.post("/seed_session", task);
    for (let n = 0; n < 50; n++) {
      expect((await client.post("/increment_counter", { count: 1 })).status).toBe(200);
    }
    return serving.stop();
  }

  test("it is unreachable", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    const { code, ms } = await isServed(`http://127.0.0.1:${port}`);
    expect(code).toBe(0);
    expect(ms).toBeLessThan(6_000);
  });

  test("it accepts requests and never answers", async () => {
    const collector = await startCollector({ answers: false });
    const { code, ms } = await isServed(collector.url);
    expect(code).toBe(0);
    expect(ms).toBeLessThan(6_000);
    expect(collector.raw()).toContain("holdfast.call");
  });

  test("it refuses requests: that is reported once", async () => {
    const { createServer } = await import("node:http");
    const server = createServer((request, response) => {
      request.resume().on("end", () => response.writeHead(401).end());
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const { code, stderr } = await isServed(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    expect(code).toBe(0);
    expect(stderr.match(/traces cannot be sent/g)).toHaveLength(1);
    expect(stderr).toContain("Unauthorized");
  });
});

describe("loaded modules", () => {
  /** Every CommonJS module that the process had loaded at its end. All of OpenTelemetry is CommonJS. */
  async function loadedBy(variables: { [name: string]: string }): Promise<string[]> {
    const place = await folder();
    const [hook, list] = [join(place, "hook.mjs"), join(place, "loaded.json")];
    await writeFile(
      hook,
      `import { writeFileSync } from "node:fs";
       import { createRequire } from "node:module";
       const { cache } = createRequire(import.meta.url);
       process.on("exit", () => writeFileSync(${JSON.stringify(list)}, JSON.stringify(Object.keys(cache))));`,
    );
    const serving = await serve({ ...variables, NODE_OPTIONS: `--import=${hook}` });
    const client = createClient(serving.url);
    await client.post("/seed_session", task);
    await client.post("/increment_counter", { count: 1 });
    expect((await serving.stop()).code).toBe(0);
    return JSON.parse(await readFile(list, "utf8")) as string[];
  }
  // The bare API does nothing by itself and comes with prom-client.
  const isTracing = (file: string): boolean =>
    file.includes("@opentelemetry/") && !file.includes("/node_modules/@opentelemetry/api/");

  test("include only the bare OpenTelemetry API without an endpoint", async () => {
    const off: { [name: string]: string }[] = [{}, { OTEL_SERVICE_NAME: "x" }, { OTEL_EXPORTER_OTLP_ENDPOINT: "" }];
    const disabled = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9", OTEL_SDK_DISABLED: "true" };
    for (const variables of [...off, disabled]) {
      const loaded = await loadedBy(variables);
      expect(loaded.length).toBeGreaterThan(10);
      expect(loaded.filter(isTracing)).toEqual([]);
    }
  });

  test("include OpenTelemetry with an endpoint: the check above would see it", async () => {
    const collector = await startCollector();
    const loaded = await loadedBy({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
    expect(loaded.filter(isTracing).length).toBeGreaterThan(10);
  });
});

describe("unusable tracing settings are reported before serving", () => {
  test("missing packages: names what to install", async () => {
    const place = await folder();
    const hook = join(place, "hook.mjs");
    const refusing = `export async function resolve(name, context, next) {
      if (!name.startsWith("@opentelemetry/")) return next(name, context);
      throw Object.assign(new Error("Cannot find package " + name), { code: "ERR_MODULE_NOT_FOUND" });
    }`;
    const url = `data:text/javascript,${encodeURIComponent(refusing)}`;
    await writeFile(hook, `import { register } from "node:module"; register(${JSON.stringify(url)});`);
    const variables = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9", NODE_OPTIONS: `--import=${hook}` };
    const { printed, ended } = await command(["serve", "examples/counter", "--port", "0"], variables);
    expect(await ended).toBe(1);
    expect(printed.stdout).toBe("");
    expect(printed.stderr).toContain("missing_dependency: ");
    expect(printed.stderr).toContain("npm install @opentelemetry/api @opentelemetry/sdk-trace-node");
  });

  test("gRPC, which is not supported", async () => {
    const variables = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4317", OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" };
    const { printed, ended } = await command(["serve", "examples/counter", "--port", "0"], variables);
    expect(await ended).toBe(1);
    expect(printed.stderr).toContain("invalid_option: traces can be sent only over HTTP");
  });
});
