// Builds the documentation site: the pages of docs/ and the API reference from the source, into site/dist.
// `npm run docs` runs it. The packages of the site are installed on the first run. `npm run docs -- --dev` serves it and
// reloads on changes of the copied pages.
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const site = fileURLToPath(new URL(".", import.meta.url));
const root = join(site, "..");
const source = join(site, "source");

/** Files that the patterns of `exports` match and that the command line uses alone. */
const internal = new Set(["open.ts", "by-name.ts", "local-response.ts", "collections.ts", "run-rollout.ts"]);

if (!existsSync(join(site, "node_modules/vitepress"))) {
  console.log("installing the packages of the site (150 MB, once)");
  const { status } = spawnSync("npm", ["ci", "--no-audit", "--no-fund"], {
    cwd: site,
    stdio: "inherit",
    shell: process.platform === "win32",
  });
  if (status !== 0) process.exit(status ?? 1);
}

rmSync(source, { recursive: true, force: true });
cpSync(join(root, "docs"), source, { recursive: true });
// Files that pages link to and that are not pages.
mkdirSync(join(source, "public"));
for (const name of readdirSync(source).filter((file) => file.endsWith(".json"))) {
  cpSync(join(source, name), join(source, "public", name));
}
writeFileSync(join(source, "decisions/index.md"), decisionIndex());

const { Application } = await import("typedoc");
const app = await Application.bootstrapWithPlugins({
  plugin: [fileURLToPath(import.meta.resolve("typedoc-plugin-markdown"))],
  entryPoints: entryPoints(),
  tsconfig: join(root, "tsconfig.json"),
  out: join(source, "api"),
  readme: "none",
  name: "API reference",
  excludeInternal: true,
  excludePrivate: true,
  excludeExternals: true,
  disableSources: true,
  skipErrorChecking: true,
  sort: ["source-order"],
  groupOrder: ["Functions", "Variables", "Classes", "Interfaces", "Type Aliases"],
  logLevel: "Error",
  router: "member",
  entryFileName: "index",
  hideBreadcrumbs: true,
  hidePageHeader: true,
  useCodeBlocks: true,
  expandObjects: true,
  parametersFormat: "table",
  interfacePropertiesFormat: "table",
  typeDeclarationFormat: "table",
  propertyMembersFormat: "table",
  indexFormat: "table",
});
const project = await app.convert();
if (!project) process.exit(1);
for (const module of project.children ?? []) module.name = publicName(module.name);
await app.generateOutputs(project);

const vitepress = join(site, "node_modules/vitepress/bin/vitepress.js");
const { status } = spawnSync(process.execPath, [vitepress, process.argv.includes("--dev") ? "dev" : "build", site], {
  stdio: "inherit",
});
process.exit(status ?? 1);

/** The source files behind the `exports` of the package. */
function entryPoints() {
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  return Object.values(exports).flatMap((target) => {
    const file = target["holdfast-source"];
    if (file === undefined) return [];
    if (!file.includes("*")) return [join(root, file)];
    const folder = join(root, file.slice(0, file.indexOf("*")));
    return readdirSync(folder)
      .filter((name) => name.endsWith(".ts") && !internal.has(name))
      .map((name) => join(folder, name));
  });
}

/** The name by which a module is imported: `stores/sqlite` is `holdfast/stores/sqlite`. */
function publicName(name) {
  const path = name.replace(/(^|\/)index$/, "").replace("server/serve", "serve");
  return path === "" ? "holdfast" : `holdfast/${path}`;
}

/** A page that lists the decision records by their titles. */
function decisionIndex() {
  const names = readdirSync(join(source, "decisions")).filter((name) => /^\d/.test(name));
  const lines = names.map((name) => {
    const [title = name] = readFileSync(join(source, "decisions", name), "utf8").split("\n");
    return `- [${title.replace(/^# /, "")}](${name})`;
  });
  return `# Decisions\n\nWhy things are as they are, one page each.\n\n${lines.join("\n")}\n`;
}
