// Loads an author's modules from a folder, file or package: an environment or agent, and the files next to it.
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, extname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { createJiti, type Jiti } from "jiti";
import { isAgent } from "../agent/define-agent.ts";
import type { Agent } from "../core/agent.ts";
import type { AnyEnvironment } from "../core/environment.ts";
import { cannotLoad, messageOf, isHoldfastError } from "../core/errors.ts";
import type { Solution } from "../testing/environments.ts";
import { authorsLine, shortenPath } from "../session/thrown.ts";

/** An environment and the solution next to it. */
export interface Loaded {
  environment: AnyEnvironment;
  solution: Solution | undefined;
}

const endings = [".ts", ".mts", ".js", ".mjs"];

/** Loads an environment and the solution next to it. */
export async function load(target: string): Promise<Loaded> {
  return { environment: await loadEnvironment(target), solution: await loadSolution(target) };
}

/** Loads the solution next to an environment, if there is one. */
export async function loadSolution(target: string): Promise<Solution | undefined> {
  const beside = fileIn(dirname(await locate(target, "environment")), "solution");
  const solution = beside && (await importModule(beside, beside))["default"];
  if (solution === undefined || typeof solution === "function") return solution as Solution | undefined;
  throw cannotLoad(`the default export of ${beside} is not a function`);
}

/** Loads an environment without the files next to it. */
export async function loadEnvironment(target: string): Promise<AnyEnvironment> {
  const file = await locate(target, "environment");
  const named = nameFile(target, file);
  return environmentIn(await importModule(file, named), named);
}

/** Loads an agent: the default export of its module, or the export named `agent`. */
export async function loadAgent(target: string): Promise<Agent> {
  const file = await locate(target, "agent");
  const named = nameFile(target, file);
  const module = await importModule(file, named);
  const found = agentIn(module);
  if (found) return found;
  const [first] = exportedIn(module);
  if (first === undefined) throw cannotLoad(`${named} exports no agent; write \`export default defineAgent({ … })\``);
  const what = first === "default" ? "the default export" : "the export `agent`";
  throw cannotLoad(`${what} of ${named} is not an agent; make one with defineAgent({ … })`);
}

/** Loads a target for `serve`: an environment with its solution, or an agent. */
export async function loadServed(target: string): Promise<Loaded | { agent: Agent }> {
  const path = resolve(target);
  if (existsSync(path) && statSync(path).isDirectory()) {
    if (fileIn(path, "environment")) return load(target);
    if (fileIn(path, "agent")) return { agent: await loadAgent(target) };
    throw cannotLoad(
      `the folder ${target} contains neither an environment nor an agent (environment.ts or agent.ts, or the same with .js or .mjs)`,
    );
  }
  const agent = agentIn(await importModule(await locate(target, "agent"), target));
  return agent ? { agent } : load(target);
}

// Tests for the export itself, because jiti returns the whole module as a missing default.
const exportedIn = (module: Module): string[] => ["default", "agent"].filter((name) => name in module);

function agentIn(module: Module): Agent | undefined {
  return exportedIn(module)
    .map((name) => module[name])
    .find(isAgent);
}

/** Resolves a target to its file. */
export async function locate(target: string, name: "environment" | "agent"): Promise<string> {
  const path = resolve(target);
  if (existsSync(path)) {
    if (!statSync(path).isDirectory()) return path;
    const file = fileIn(path, name);
    if (file) return file;
    const [other, commands] = name === "agent" ? ["environment", "collect"] : ["agent", "run"];
    const hint = fileIn(path, other) ? `; it has an ${other}: use holdfast ${commands} or serve` : "";
    throw cannotLoad(`the folder ${target} has no ${name}.ts, .js or .mjs${hint}`);
  }
  const isPath = /^[./\\]/.test(target) || endings.includes(extname(target));
  const found = isPath ? undefined : (await jitiAt(process.cwd())).esmResolve(target, { try: true });
  if (found !== undefined) return found.startsWith("file:") ? fileURLToPath(found) : found;
  throw cannotLoad(isPath ? `${target} does not exist` : `${target} is not a folder, a file or an installed package`);
}

/** Names a target in messages: a folder by the file in it. */
const nameFile = (target: string, file: string): string =>
  existsSync(target) && statSync(target).isDirectory() ? shortenPath(file) : target;

/** Finds a module in a folder, with any extension. */
export function fileIn(folder: string, name: string): string | undefined {
  return endings.map((ending) => join(folder, `${name}${ending}`)).find((path) => existsSync(path));
}

type Module = { [name: string]: unknown };

// Node's errors for a module that it cannot load itself. None of the module's code has run, so jiti can load it.
const notForNode = new Set([
  "ERR_MODULE_NOT_FOUND",
  "ERR_UNKNOWN_FILE_EXTENSION",
  "ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING",
  "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX",
]);

async function importModule(file: string, target: string): Promise<Module> {
  const isScript = !file.endsWith("ts");
  try {
    if (isScript || (process.features as { typescript?: unknown }).typescript) {
      try {
        return (await import(pathToFileURL(file).href)) as Module;
      } catch (thrown) {
        // Node does not report where parsing failed; jiti does.
        if (!notForNode.has((thrown as { code?: string } | null)?.code ?? "") && !isUnparsed(thrown)) throw thrown;
      }
    }
    return (await (await jitiAt(dirname(file))).import(file)) as Module;
  } catch (cause) {
    throw cannotLoad(explainLoadError(cause, target), cause);
  }
}

/** Creates a loader for TypeScript on any Node version. It resolves imports of this package to this copy. */
async function jitiAt(folder: string): Promise<Jiti> {
  return createJiti(pathToFileURL(join(folder, "environment.ts")).href, {
    // Does not write into the author's folder.
    fsCache: false,
    virtualModules: {
      holdfast: await import("holdfast"),
      "holdfast/testing": await import("holdfast/testing"),
      "holdfast/stores/memory": await import("holdfast/stores/memory"),
      "holdfast/stores/sqlite": await import("holdfast/stores/sqlite"),
      "holdfast/models/scripted": await import("holdfast/models/scripted"),
      "holdfast/models/random": await import("holdfast/models/random"),
      "holdfast/models/recorded": await import("holdfast/models/recorded"),
      "holdfast/models/openai": await import("holdfast/models/openai"),
      "holdfast/models/chat": await import("holdfast/models/chat"),
      "holdfast/models/anthropic": await import("holdfast/models/anthropic"),
    },
  });
}

function environmentIn(module: Module, target: string): AnyEnvironment {
  const { default: made } = module;
  // Tests for the export itself, because jiti returns the whole module as a missing default.
  if (!("default" in module)) {
    throw cannotLoad(`${target} has no default export; write \`export default defineEnvironment({ … })\``);
  }
  const { name, definitions } = (typeof made === "object" && made !== null ? made : {}) as Partial<AnyEnvironment>;
  if (typeof name === "string" && definitions instanceof Map) return made as AnyEnvironment;
  throw cannotLoad(`the default export of ${target} is not an environment; make one with defineEnvironment({ … })`);
}

const parseError = /^ParseError: (.*?)\s*\n\s*(\S.*):(\d+):(\d+)\s*$/s;

/** Returns an error's location and message, as in "environment.ts:12:5: Unexpected token". */
function explainLoadError(thrown: unknown, target: string): string {
  const [, problem, file = "", line, column] = parseError.exec(messageOf(thrown)) ?? [];
  if (problem !== undefined) return `${shortenPath(file)}:${line}:${Number(column) + 1}: ${problem}`;
  const [message = ""] = messageOf(thrown).split("\n");
  const found = authorsLine(thrown);
  if (!found && message.startsWith("Unknown file extension")) return `${target} is not a TypeScript or JavaScript file`;
  if (!found) return `cannot load ${target}: ${message}`;
  const name = thrown instanceof Error && thrown.name !== "Error" && !isHoldfastError(thrown) ? `${thrown.name}: ` : "";
  return `${shortenPath(found.path)}:${found.line}${importColumn(found, message)}: ${name}${message}`;
}

/** Returns the column of a missing import, as in ":19". */
function importColumn({ path, line }: { path: string; line: number }, message: string): string {
  const [, specifier] = /^Cannot find (?:module|package) '([^']+)'/.exec(message) ?? [];
  if (specifier === undefined || !existsSync(path)) return "";
  const at = readFileSync(path, "utf8").split("\n")[line - 1]?.indexOf(specifier) ?? -1;
  return at < 0 ? "" : `:${at + 1}`;
}

/** Returns whether a module could not be parsed, which means that none of its code has run. */
const isUnparsed = (thrown: unknown): boolean => thrown instanceof SyntaxError && !authorsLine(thrown);
