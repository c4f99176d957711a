// holdfast init: its files and refusals.
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { format } from "prettier";
import { describe, expect, onTestFinished, test } from "vitest";
import manifest from "../../package.json" with { type: "json" };
import { createProject, projectFiles, versions } from "../../src/cli/init/create.ts";
import { ownSpec } from "../../src/cli/init/own-spec.ts";
import { inShell } from "../e2e/installed.ts";
import { built } from "../built.ts";
import { root } from "../files.ts";

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-init-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function init(args: string, cwd: string) {
  return inShell(`"${process.execPath}" "${join(await built(), "cli/main.js")}" init ${args}`, cwd);
}

describe.each(["stateless", "stateful", "multi-step", "agent"])("the files of %s", (kind) => {
  test("are formatted", async () => {
    for (const [path, text] of await projectFiles("sample", kind)) {
      if (!/\.(ts|json)$/.test(path)) continue;
      expect(await format(text, { filepath: path, printWidth: 120 }), path).toBe(text);
    }
  });

  test("name the environment or agent, and the package", async () => {
    const files = await projectFiles("price-list", kind);
    expect(files.get("README.md")).toMatch(/^# price-list\n/);
    expect([...files.values()].join("\n")).not.toMatch(/NAME"|PARTS/);
    expect(files.get(kind === "agent" ? "agent.ts" : "environment.ts")).toContain('  name: "price-list",\n');
    expect((JSON.parse(files.get("package.json") ?? "") as { name: string }).name).toBe("price-list");
  });
});

describe("the new project depends on the Holdfast that made it:", () => {
  /** Installs nothing but a package.json of Holdfast, in a project that asks for it as `spec`. */
  async function installed(
    spec: string | undefined,
    under = "node_modules",
  ): Promise<{ project: string; own: string }> {
    const project = await newFolder();
    const own = join(project, under, "holdfast");
    await mkdir(own, { recursive: true });
    await writeFile(join(own, "package.json"), '{"version":"1.2.3"}');
    const dependencies = spec === undefined ? {} : { holdfast: spec };
    await writeFile(join(project, "package.json"), JSON.stringify({ dependencies }));
    return { project, own };
  }

  test.each([
    ["the registry", "^1.2.0", "^1.2.3"],
    ["a tag of the registry", "latest", "^1.2.3"],
    ["another name of the registry", "npm:@mine/holdfast@1", "^1.2.3"],
    ["a tarball", "file:../holdfast-1.2.3.tgz", "file:../../holdfast-1.2.3.tgz"],
    ["a tarball of a server", "https://example.com/holdfast.tgz", "https://example.com/holdfast.tgz"],
    ["a repository", "github:holdfast-dev/holdfast", "github:holdfast-dev/holdfast"],
    ["somewhere that no project names", undefined, "^1.2.3"],
  ])("from %s", async (_, spec, expected) => {
    const { project, own } = await installed(spec);
    expect(ownSpec(join(project, "sample"), own)).toBe(expected);
  });

  test("from a tarball, installed by pnpm", async () => {
    const { project, own } = await installed("file:holdfast.tgz", "node_modules/.pnpm/holdfast@file+1/node_modules");
    expect(ownSpec(join(project, "sample"), own)).toBe("file:../holdfast.tgz");
  });

  test("from a checkout", () => expect(ownSpec(join(root, "a/sample"))).toBe("file:../.."));
});

test("it requests the tested versions", () => {
  expect(manifest.devDependencies).toMatchObject(versions);
});

describe("init", () => {
  test("has help with an example", async () => {
    const { code, stdout } = await init("--help", await newFolder());
    expect(code).toBe(0);
    expect(stdout).toContain("$ npx holdfast init thermostat\n");
  });

  test("creates a stateful environment without a terminal, and prints the next steps", async () => {
    const folder = await newFolder();
    const { code, stdout, stderr } = await init("thermostat", folder);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^Created thermostat, a stateful environment:\n {2}thermostat\//);
    expect(stdout).toMatch(/\n\nNext:\n {2}cd thermostat\n {2}npm install\n {2}npm test\n/);
    expect((await readdir(join(folder, "thermostat"))).sort()).toEqual([
      ".gitignore",
      "README.md",
      "environment.test.ts",
      "environment.ts",
      "generate.ts",
      "package.json",
      "solution.ts",
      "tasks.jsonl",
      "tsconfig.json",
    ]);
  });

  test("--json reports the created files", async () => {
    const folder = await newFolder();
    const { stdout } = await init("prices --kind stateless --json", folder);
    expect(JSON.parse(stdout)).toMatchObject({ name: "prices", kind: "stateless", next: expect.any(Array) });
  });

  test("accepts an existing empty folder", async () => {
    const folder = await newFolder();
    await createProject(folder, "sample", "stateful");
    expect(await readFile(join(folder, "tasks.jsonl"), "utf8")).toContain('"start":15');
  });

  test("refuses a folder with files, and leaves it unchanged", async () => {
    const folder = await newFolder();
    await mkdir(join(folder, "sample"));
    await writeFile(join(folder, "sample/notes.txt"), "mine");
    const { code, stderr } = await init("sample", folder);
    expect(code).toBe(1);
    expect(stderr).toBe(
      "invalid_option: the folder sample already exists and contains notes.txt; choose another name, or empty the folder\n",
    );
    expect(await readdir(join(folder, "sample"))).toEqual(["notes.txt"]);
  });

  test("refuses the name of an existing file", async () => {
    const folder = await newFolder();
    await writeFile(join(folder, "sample"), "mine");
    const { stderr } = await init("sample", folder);
    expect(stderr).toBe("invalid_option: sample already exists and is not a folder; choose another name\n");
  });

  test.each(["Thermostat", "../up", ".", "a b", "7up", "-x", "zod", "holdfast", "node_modules", "x".repeat(65)])(
    "refuses the name %j and creates nothing",
    async (name) => {
      const folder = join(await newFolder(), "made");
      await expect(createProject(folder, name, "stateful")).rejects.toMatchObject({ code: "invalid_option" });
      await expect(readdir(folder)).rejects.toMatchObject({ code: "ENOENT" });
    },
  );

  test("refuses an unknown kind", async () => {
    const { code, stderr } = await init("sample --kind huge", await newFolder());
    expect(code).toBe(1);
    expect(stderr).toContain("Allowed choices are stateless, stateful, multi-step, agent.");
  });

  test("leaves nothing behind after a failure", async () => {
    const folder = join(await newFolder(), "made");
    const templates = join(await newFolder(), "templates");
    await cp(join(root, "templates"), templates, { recursive: true });
    await writeFile(join(templates, "stateful/generate.ts"), "process.exit(1);\n");
    await expect(createProject(folder, "sample", "stateful", templates)).rejects.toThrow();
    await expect(readdir(folder)).rejects.toMatchObject({ code: "ENOENT" });
  });
});
