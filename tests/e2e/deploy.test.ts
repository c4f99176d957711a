// The deployment files without Docker: the commands of the image and of compose run, and every named file exists.
// The dashboard and the alerts use only metrics that a server prints.
import { execFile, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { memoryStore, scriptedModel } from "holdfast";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import counter from "../../examples/counter/environment.ts";
import manifest from "../../package.json" with { type: "json" };
import { HoldfastError } from "../../src/core/errors.ts";
import { serve } from "../../src/server/serve.ts";
import { freePort } from "../../tools/servers/ports.mjs";
import { built } from "../built.ts";
import { startServing } from "./serve-process.ts";
import { fileAt, filesIn, root, tableIn } from "../files.ts";
import { readYaml, type Yaml } from "../yaml.ts";

const run = promisify(execFile);

// Outside the time limit of the first test.
beforeAll(() => built());

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), "holdfast-deploy-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

interface Service {
  image?: string;
  command?: string[];
  volumes?: string[];
  secrets?: string[];
  depends_on?: string[] | { [service: string]: { condition: string } };
  healthcheck?: { test: string[] };
  build?: string;
}

const compose = readYaml(fileAt("compose.yaml").text) as unknown as {
  services: { [name: string]: Service };
  volumes: { [name: string]: Yaml };
  secrets: { [name: string]: Yaml };
};

/** The instructions of the Dockerfile, by stage. */
const stages = fileAt("Dockerfile")
  .text.split(/^(?=FROM )/m)
  .slice(1)
  .map((stage) =>
    stage.split("\n").flatMap((line) => {
      const [, instruction, rest] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
      return instruction === undefined || rest === undefined ? [] : [{ instruction, rest }];
    }),
  );
const [building = [], final = []] = stages;
const only = (instruction: string): string => {
  const found = final.filter((line) => line.instruction === instruction);
  expect(found).toHaveLength(1);
  return found[0]?.rest ?? "";
};

/** Fills in the defaults of compose's variables, and the given values. */
const filledIn = (text: string, given: { [name: string]: string } = {}): string =>
  text.replaceAll(/\$\{(\w+)(?::[-?]([^}]*))?\}/g, (_, name: string, otherwise = "") => given[name] ?? otherwise);

describe("the Dockerfile", () => {
  test("everything it copies exists, and .dockerignore lets it through", () => {
    const allowed = fileAt(".dockerignore")
      .text.split("\n")
      .flatMap((line) => /^!(.*)$/.exec(line)?.[1] ?? []);
    const copied = stages
      .flat()
      .filter(({ instruction, rest }) => instruction === "COPY" && !rest.startsWith("--from="))
      .flatMap(({ rest }) => rest.split(" ").slice(0, -1));
    expect(copied.length).toBeGreaterThan(4);
    expect(copied.filter((path) => !existsSync(join(root, path)))).toEqual([]);
    const isAllowed = (path: string): boolean => allowed.some((name) => path === name || path.startsWith(`${name}/`));
    expect(copied.filter((path) => !isAllowed(path))).toEqual([]);
    expect(allowed.filter((path) => !copied.includes(path))).toEqual([]);
  });

  test("it has two stages, pins the major version of Node, and does not run as root", () => {
    expect(stages.map(([from]) => from?.rest)).toEqual(["node:24-slim AS build", "node:24-slim"]);
    expect(only("USER")).toBe("node");
    const scripts = building.filter(({ instruction }) => instruction === "RUN").map(({ rest }) => rest);
    // Every npm script that it runs is one of the package's.
    const named = scripts.flatMap((line) => /npm run (\S+)/.exec(line)?.[1] ?? []);
    expect(named.filter((name) => !(name in manifest.scripts))).toEqual([]);
  });

  test("all optional packages but @photostructure/sqlite stay, at the ranges of the lock file", async () => {
    const place = folder();
    cpSync(join(root, "package.json"), join(place, "package.json"));
    await run(process.execPath, [join(root, "deploy/dependencies.mjs")], { cwd: place });
    const made = JSON.parse(readFileSync(join(place, "package.json"), "utf8")) as typeof manifest;
    const wanted = [...Object.keys(manifest.peerDependencies), "zod"].filter(
      (name) => name !== "@photostructure/sqlite",
    );
    expect(Object.keys(made.dependencies).sort()).toEqual([...Object.keys(manifest.dependencies), ...wanted].sort());
    for (const name of wanted) {
      expect(made.dependencies[name as "pino"]).toBe(manifest.devDependencies[name as "zod"]);
      expect(made.devDependencies).not.toHaveProperty(name);
    }
  });

  test("its command serves in a tree laid out like the image, its health check passes, and it drains", async () => {
    const place = folder();
    symlinkSync(join(root, "node_modules"), join(place, "node_modules"));
    symlinkSync(await built(), join(place, "dist"));
    for (const path of ["package.json", "examples", "deploy"]) {
      cpSync(join(root, path), join(place, path), { recursive: true });
    }
    mkdirSync(join(place, "data"));
    const port = await freePort();
    const json = (text: string): string[] => JSON.parse(text) as string[];
    const args = [...json(only("ENTRYPOINT")), ...json(only("CMD"))].map((argument) =>
      argument
        .replace(/^8080$/, String(port))
        .replace("sqlite:/data", `sqlite:${place}/data`)
        .replace("0.0.0.0", "127.0.0.1"),
    );
    expect(args[0]).toBe("node");
    const [, health = "[]"] = /CMD (.*)$/.exec(only("HEALTHCHECK")) ?? [];
    expect(json(health)[0]).toBe("node");
    const check = (): Promise<number> =>
      run(process.execPath, [...json(health).slice(1), String(port)], { cwd: place }).then(
        () => 0,
        ({ code }: { code: number }) => code,
      );
    expect(await check()).toBe(1);
    const child = spawn(process.execPath, args.slice(1), { cwd: place, stdio: "ignore" });
    const ended = new Promise((resolve) => child.on("close", resolve));
    onTestFinished(async () => {
      child.kill("SIGKILL");
      await ended;
    });
    const deadline = Date.now() + 30_000;
    while ((await check()) !== 0) {
      if (Date.now() > deadline || child.exitCode !== null) throw new Error(`it is not healthy (${child.exitCode})`);
      await sleep(50);
    }
    child.kill("SIGTERM");
    expect(await ended).toBe(0);
    expect(await check()).toBe(1);
  });
});

describe("compose.yaml", () => {
  const services = Object.entries(compose.services);

  test("it has two identical servers, a balancer, Redis, Postgres, Prometheus and Grafana", () => {
    const names = ["balancer", "grafana", "postgres", "prometheus", "redis", "server-1", "server-2"];
    expect(Object.keys(compose.services).sort()).toEqual(names);
    expect(compose.services["server-2"]).toEqual(compose.services["server-1"]);
  });

  test("every image has a version, and no registry", () => {
    const images = services.filter(([, { build }]) => build === undefined).map(([, { image }]) => image ?? "none");
    expect(images.filter((image) => !/^([a-z]+\/)?[a-z]+:v?\d+(\.\d+)*$/.test(image))).toEqual([]);
  });

  test("every file, volume, secret and service that it names exists", () => {
    for (const [, { volumes = [], secrets = [], depends_on = [] }] of services) {
      for (const volume of volumes) {
        const [from = ""] = volume.split(":");
        if (from.startsWith("./")) expect(existsSync(join(root, from)), from).toBe(true);
        else expect(compose.volumes).toHaveProperty(from);
      }
      for (const secret of secrets) expect(compose.secrets).toHaveProperty(secret);
      const needed = Array.isArray(depends_on) ? depends_on : Object.keys(depends_on);
      for (const name of needed) expect(compose.services).toHaveProperty(name);
      if (Array.isArray(depends_on)) continue;
      for (const [name, { condition }] of Object.entries(depends_on)) {
        expect(condition).toBe("service_healthy");
        const { healthcheck, build } = compose.services[name] ?? {};
        expect(healthcheck ?? build, `${name} has a health check, its own or the image's`).toBeDefined();
      }
    }
  });

  test("its configurations name existing servers, alerts, secrets and dashboards", () => {
    const { scrape_configs: scraped, rule_files } = readYaml(fileAt("deploy/prometheus/prometheus.yaml").text) as {
      scrape_configs: { authorization: { credentials_file: string }; static_configs: { targets: string[] }[] }[];
      rule_files: string[];
    };
    const targets = scraped.flatMap(({ static_configs }) => static_configs.flatMap(({ targets }) => targets));
    expect(targets).toEqual(["server-1:8080", "server-2:8080"]);
    expect(fileAt("deploy/caddy/Caddyfile").text).toContain(`reverse_proxy ${targets.join(" ")} {`);
    const mounted = (service: string): string[] =>
      (compose.services[service]?.volumes ?? []).map((volume) => volume.split(":")[1] ?? "");
    for (const file of rule_files) expect(mounted("prometheus")).toContain(file);
    const secret = compose.services["prometheus"]?.secrets?.[0] ?? "";
    expect(scraped[0]?.authorization.credentials_file).toBe(`/run/secrets/${secret}`);
    const { providers } = readYaml(fileAt("deploy/grafana/provisioning/dashboards/holdfast.yaml").text) as {
      providers: { options: { path: string } }[];
    };
    expect(mounted("grafana")).toContain(`${providers[0]?.options.path}/holdfast.json`);
  });

  test("Redis is persistent, and evicts nothing", () => {
    const command = compose.services["redis"]?.command ?? [];
    const value = (flag: string): string | undefined => command[command.indexOf(flag) + 1];
    expect(value("--appendonly")).toBe("yes");
    expect(value("--maxmemory-policy")).toBe("noeviction");
  });

  test("its servers start with these flags, require the token for /metrics, and Prometheus' targets answer", async () => {
    const token = "0123456789abcdef";
    const [first, ...command] = compose.services["server-1"]?.command ?? [];
    expect(first).toBe("serve");
    const args = command.map((argument) => filledIn(argument, { HOLDFAST_TOKEN: token, HOLDFAST_STORE: "memory:" }));
    // Only the address differs: a token is required beyond this machine.
    const local = args.map((argument) => argument.replace("0.0.0.0", "127.0.0.1").replace(/^8080$/, "0"));
    const { url } = await startServing(local);
    expect((await fetch(`${url}/metrics`)).status).toBe(401);
    expect((await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${token}` } })).status).toBe(200);
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    const stores = command.flatMap((argument, at) => (command[at - 1] === "--store" ? [filledIn(argument)] : []));
    expect(stores).toEqual(["redis://redis:6379"]);
  });
});

/** The metrics of a server after every counted event has happened once, each with its labels. */
async function printed(): Promise<Map<string, Set<string>>> {
  const store = memoryStore();
  let failing = false;
  const flaky = {
    ...store,
    append: (...commits: Parameters<typeof store.append>) =>
      failing ? Promise.reject(new HoldfastError("store_failed", "as asked")) : store.append(...commits),
  };
  const model = scriptedModel(["Hello."]);
  const served = { environments: [counter], store: flaky, port: 0, proxy: () => ({ model }) };
  const serving = await serve({ ...served, log: { what: "none" } });
  onTestFinished(() => serving.close());
  const post = async (path: string, body: unknown): Promise<{ session?: string; mcp?: { model_url_path: string } }> => {
    const headers = { "content-type": "application/json" };
    const response = await fetch(serving.url + path, { method: "POST", headers, body: JSON.stringify(body) });
    return (await response.json()) as { session?: string };
  };
  const { session, mcp } = await post("/v1/sessions", { task: { initial_count: 1, expected_count: 2 } });
  await post(`/v1/sessions/${session}/call`, { tool: "increment_counter", input: { count: 1 } });
  await post(`${mcp?.model_url_path}/chat/completions`, { messages: [{ role: "user", content: "Hello?" }] });
  failing = true;
  await post(`/v1/sessions/${session}/call`, { tool: "increment_counter", input: { count: 1 } });
  failing = false;
  await fetch(`${serving.url}/v1/sessions/${session}`, { method: "DELETE" });
  const text = await (await fetch(`${serving.url}/metrics`)).text();
  const found = new Map<string, Set<string>>();
  for (const line of text.split("\n")) {
    const [, name, labels = ""] = /^(\w+)(?:\{(.*)\})? \S+$/.exec(line) ?? [];
    if (name === undefined) continue;
    const known = found.get(name) ?? new Set<string>();
    for (const [, label = ""] of labels.matchAll(/(\w+)="/g)) known.add(label);
    found.set(name, known);
  }
  return found;
}

const keywords = new Set("by without on ignoring and or unless offset bool group_left group_right".split(" "));
/** The labels that Prometheus adds to everything. */
const added = new Set(["instance", "job"]);

/** The unknown metrics and labels of an expression. */
function unknownIn(expression: string, known: Map<string, Set<string>>): string[] {
  const all = new Map([...known, ["up", new Set<string>()]]);
  const bare = expression.replaceAll(/"[^"]*"/g, '""').replaceAll(/\[[^\]]*\]/g, "");
  const selectors = bare
    .replaceAll(/\b(by|without|on|ignoring)\s*\([^)]*\)/g, " ")
    .matchAll(/(?<!\w)([a-zA-Z_:][\w:]*)\s*(\(|\{([^}]*)\})?/g);
  const metrics: string[] = [];
  const complaints: string[] = [];
  for (const [, name = "", next, labels = ""] of selectors) {
    if (next === "(" || keywords.has(name)) continue;
    metrics.push(name);
    const has = all.get(name);
    if (!has) complaints.push(`${name} is no metric`);
    for (const [, label = ""] of labels.matchAll(/(\w+)\s*[=!]/g)) {
      if (has && !has.has(label) && !added.has(label)) complaints.push(`${name} has no label ${label}`);
    }
  }
  for (const [, , labels = ""] of bare.matchAll(/\b(by|without|on|ignoring)\s*\(([^)]*)\)/g)) {
    for (const label of labels.split(",").map((part) => part.trim())) {
      if (!added.has(label) && !metrics.some((name) => all.get(name)?.has(label))) {
        complaints.push(`nothing has a label ${label}`);
      }
    }
  }
  if (metrics.length === 0) complaints.push("it asks for nothing");
  return complaints;
}

describe("monitoring", () => {
  const dashboard = JSON.parse(fileAt("deploy/grafana/holdfast.json").text) as {
    uid: string;
    panels: { id: number; title: string; type: string; gridPos: object; targets?: { expr: string }[] }[];
    templating: { list: { name: string; definition?: string }[] };
  };
  const { groups } = readYaml(fileAt("deploy/prometheus/alerts.yaml").text) as {
    groups: { rules: { alert: string; expr: string; labels: object; annotations: { summary: string } }[] }[];
  };
  const rules = groups.flatMap(({ rules }) => rules);
  const asked = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

  test("the dashboard and the alerts use only metrics and labels that a server prints", async () => {
    const known = await printed();
    const defined = dashboard.templating.list.flatMap(({ definition }) => {
      const [, metric, label] = /^label_values\((\w+), (\w+)\)$/.exec(definition ?? "") ?? [];
      return metric === undefined ? [] : [`sum by (${label}) (${metric})`];
    });
    expect(defined).toHaveLength(2);
    const expressions = [...asked, ...defined, ...rules.map(({ expr }) => expr)];
    expect(
      expressions.flatMap((expression) => unknownIn(expression, known).map((what) => `${expression}: ${what}`)),
    ).toEqual([]);
  });

  test("the check of expressions refuses unknown metrics and labels", () => {
    const known = new Map([["calls_total", new Set(["tool"])]]);
    const faults = (expression: string): string[] => unknownIn(expression, known);
    expect(faults('sum by (tool) (rate(calls_total{tool=~"a{2}|b", instance="x"}[5m] offset 1h)) > 0.5')).toEqual([]);
    expect(faults("sum(rate(cals_total[5m]))")).toEqual(["cals_total is no metric"]);
    expect(faults('calls_total{color="red"}')).toEqual(["calls_total has no label color"]);
    expect(faults("sum by (color) (calls_total)")).toEqual(["nothing has a label color"]);
    expect(faults("calls_total unless up == 0")).toEqual([]);
    expect(faults("vector(1)")).toEqual(["it asks for nothing"]);
  });

  test("every panel has a unique id, a place and a query; every used variable is defined", () => {
    const ids = dashboard.panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(dashboard.panels.filter(({ type, targets = [] }) => type !== "row" && targets.length === 0)).toEqual([]);
    expect(new Set(dashboard.panels.map(({ gridPos }) => JSON.stringify(gridPos))).size).toBe(ids.length);
    const variables = new Set(dashboard.templating.list.map(({ name }) => name));
    const used = asked.flatMap((expression) => [...expression.matchAll(/\$(\w+)/g)].map(([, name]) => name ?? ""));
    expect([...new Set(used)].filter((name) => name !== "__rate_interval" && !variables.has(name))).toEqual([]);
  });

  test("every metric is in the docs with its labels, and on the dashboard; every alert is in the docs", async () => {
    const page = fileAt("docs/operations.md").text;
    const known = await printed();
    const bare = (name: string): string => name.replaceAll("`", "");
    const labelled = new Map<string, Set<string>>();
    for (const [name, labels] of known) {
      const whole = name.replace(/_(bucket|sum|count)$/, "");
      labelled.set(whole, new Set([...(labelled.get(whole) ?? []), ...labels].filter((label) => label !== "le")));
    }
    const written = tableIn(page, "metric", "labels").map(([name = "", labels = ""]) => [bare(name), labels]);
    const real = [...labelled].map(([name, labels]) => [name, [...labels].join(", ")]);
    expect(written.toSorted()).toEqual(real.toSorted());
    expect([...labelled.keys()].filter((name) => !asked.some((expression) => expression.includes(name)))).toEqual([]);
    expect(tableIn(page, "alert").map(([name]) => name)).toEqual(rules.map(({ alert }) => alert));
    for (const { annotations } of rules) expect(annotations.summary).not.toBe("");
  });

  test("the docs say how to react to every store error code", async () => {
    const { errorTable } = await import("../../src/core/errors.ts");
    const codes = Object.keys(errorTable).filter((code) => code.startsWith("store_"));
    const rows = tableIn(fileAt("docs/operations.md").text, "code", "status");
    expect(rows.map(([code]) => code?.replaceAll("`", "")).toSorted()).toEqual(codes.toSorted());
    for (const [code = "", status] of rows) {
      expect(status).toBe(String(errorTable[code.replaceAll("`", "") as keyof typeof errorTable].status));
    }
  });

  test("every deployment file says in its first line what it is for", () => {
    const files = filesIn("deploy", ".yaml", ".mjs", "Caddyfile");
    expect(files.length).toBeGreaterThan(5);
    expect(files.filter(({ text }) => !/^(#|\/\/) \S.*\S/.test(text)).map(({ path }) => path)).toEqual([]);
  });
});
