// The environments of viewed collections: with their code where it is known, otherwise by name only.
import { existsSync, realpathSync } from "node:fs";
import { dirname, isAbsolute, relative, resolve } from "node:path";
import type { AnyEnvironment } from "../core/environment.ts";
import { messageOf } from "../core/errors.ts";
import type { Store } from "../core/store.ts";
import { defineEnvironment } from "../environment/define-environment.ts";
import { isOfEnvironment } from "./episode-log.ts";
import type { Solution } from "../testing/environments.ts";
import { loadEnvironment, loadSolution, locate } from "./load.ts";
import type { ViewedCollection } from "./viewed-collections.ts";

export interface Viewed {
  environment: AnyEnvironment;
  /** Location of its code; undefined if only its name is known. */
  target?: string;
  /** The solution beside the code. */
  solution?: Solution | undefined;
}

interface ViewedOptions {
  /** Code to load, independent of the collections. */
  targets: string[];
  collections: ViewedCollection[];
  store: Store | undefined;
  note(text: string): void;
}

/** Returns the given environments and those of the collections; without collections, those of the store. */
export async function viewedEnvironments({ targets, collections, store, note }: ViewedOptions): Promise<Viewed[]> {
  const found: Viewed[] = [];
  for (const target of targets) found.push(await loaded(target));
  const has = (name: string): boolean => found.some(({ environment }) => environment.name === name);
  for (const collection of collections) {
    const { environment: name, sessions } = collection.details;
    if (name === null || !sessions || has(name)) continue;
    const recorded = await recordedEnvironment(collection, name, note);
    if (recorded) found.push(recorded);
  }
  const named = collections.flatMap(({ details: { environment, sessions } }) =>
    sessions && environment ? environment : [],
  );
  for (const name of collections.length > 0 || !store ? named : await namesIn(store)) {
    if (!has(name)) found.push({ environment: defineEnvironment({ name, tools: {} }) });
  }
  return found;
}

async function loaded(target: string): Promise<Viewed> {
  return { environment: await loadEnvironment(target), target, solution: await loadSolution(target) };
}

/**
 * Loads the environment of a collection. Files and records may come from others, so code is loaded only from the
 * current folder and from packages installed there.
 */
async function recordedEnvironment(
  { details, record }: ViewedCollection,
  name: string,
  note: (text: string) => void,
): Promise<Viewed | undefined> {
  const { target: recorded } = record ?? {};
  if (recorded === undefined) return undefined;
  const target = isPackage(recorded) ? recorded : resolve(dirname(details.file), recorded);
  const shown = isPackage(recorded) ? recorded : relative(process.cwd(), target);
  const advice = `${name} can be looked at and not played; name its code with --environment`;
  try {
    if (!isPackage(recorded) && !isWithin(process.cwd(), await locate(target, "environment"))) {
      note(`${advice}: ${shown}, which it was collected with, is not in this folder`);
      return undefined;
    }
    const found = await loaded(target);
    if (found.environment.name === name) return found;
    note(`${advice}: ${shown}, which it was collected with, is ${found.environment.name} now`);
  } catch (thrown) {
    note(`${advice}: ${messageOf(thrown)}`);
  }
  return undefined;
}

/** Recognises package names; such a name cannot point outside a package. */
const isPackage = (target: string): boolean =>
  /^@?[\w-][\w.-]*(\/[\w-][\w.-]*)*$/.test(target) && !existsSync(resolve(target));

function isWithin(folder: string, file: string): boolean {
  const way = relative(realpathSync(folder), realpathSync(file));
  return way !== ".." && !/^\.\.[/\\]/.test(way) && !isAbsolute(way);
}

async function namesIn(store: Store): Promise<string[]> {
  const names = new Set<string>();
  for await (const listed of store.list()) if (isOfEnvironment(listed)) names.add(listed.environment);
  return [...names];
}
