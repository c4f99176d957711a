// The environments of the viewed collections: with their code if the user names it, otherwise by name only.
import { dirname, relative, resolve } from "node:path";
import type { AnyEnvironment } from "../core/environment.ts";
import type { Store } from "../core/store.ts";
import { defineEnvironment } from "../environment/define-environment.ts";
import { isOfEnvironment } from "./episode-log.ts";
import type { Solution } from "../testing/environments.ts";
import { loadEnvironment, loadSolution } from "./load.ts";
import type { ViewedCollection } from "./viewed-collections.ts";

export interface Viewed {
  environment: AnyEnvironment;
  /** Location of the environment's code; undefined if only its name is known. */
  target?: string;
  /** A value for --environment that names the collection's code, if the code was not loaded. */
  recorded?: string | undefined;
  /** The solution next to the code. */
  solution?: Solution | undefined;
}

interface ViewedOptions {
  /** The code to load. No other code runs. */
  targets: string[];
  collections: ViewedCollection[];
  store: Store | undefined;
}

/** Returns the environments of the targets and the collections; without collections, the environments of the store. */
export async function viewedEnvironments({ targets, collections, store }: ViewedOptions): Promise<Viewed[]> {
  const found: Viewed[] = [];
  for (const target of targets) found.push(await loaded(target));
  const has = (name: string): boolean => found.some(({ environment }) => environment.name === name);
  const add = (name: string, recorded?: string): void => {
    if (!has(name)) found.push({ environment: defineEnvironment({ name, tools: {} }), recorded });
  };
  for (const collection of collections) {
    const { environment, sessions } = collection.details;
    if (sessions && environment) add(environment, targetOf(collection));
  }
  if (collections.length === 0 && store) for (const name of await namesIn(store)) add(name);
  return found;
}

async function loaded(target: string): Promise<Viewed> {
  return { environment: await loadEnvironment(target), target, solution: await loadSolution(target) };
}

/**
 * Returns the path of the code that a collection was made with, for a message. It is never loaded, because the record
 * may come from another person.
 */
function targetOf({ details, record }: ViewedCollection): string | undefined {
  const { target } = record ?? {};
  if (target === undefined) return undefined;
  const shown = target.startsWith(".") ? relative(process.cwd(), resolve(dirname(details.file), target)) : target;
  // The path is printed to be pasted into a shell, so other characters could be an attack.
  return /^[\w@.][\w@./-]*$/.test(shown) ? shown : undefined;
}

async function namesIn(store: Store): Promise<string[]> {
  const names = new Set<string>();
  for await (const listed of store.list()) if (isOfEnvironment(listed)) names.add(listed.environment);
  return [...names];
}
