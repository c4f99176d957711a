// createTaskRoutes(): the routes for splits and tasks that OpenEnv and ORS share.
import { ellipsis } from "../../core/ellipsis.ts";
import { HoldfastError, invalidOption } from "../../core/errors.ts";
import { isObject } from "../../core/json.ts";
import { notAllowed, type Reply, type Request } from "../../core/protocol.ts";
import type { TaskFiles } from "../../rollout/task-files.ts";

/**
 * Serves the tasks of environments, by their names in lower case. Clients get references to the tasks and not the rows,
 * because rows contain the values that `verify` checks, and these routes need no token.
 */
export function createTaskRoutes(served: ReadonlyMap<string, TaskFiles>) {
  return async ({ method, path, body }: Pick<Request, "method" | "path" | "body">): Promise<Reply | undefined> => {
    if (path === "/list_environments") return ok([...served.keys()]);
    const [, given = "", route = ""] = /^\/([^/]+)\/(splits|tasks|num_tasks|task|task_range)$/.exec(path) ?? [];
    if (route === "") return undefined;
    const wanted = route === "splits" ? "GET" : "POST";
    if (method !== wanted) throw notAllowed(path, method, [wanted]);
    const name = given.toLowerCase();
    const tasks = served.get(name);
    if (!tasks) {
      const message = `there is no environment "${ellipsis(given, 100)}"; there are: ${[...served.keys()].join(", ")}`;
      throw new HoldfastError("not_found", message);
    }
    if (route === "splits")
      return ok((await tasks.splits()).map((split) => ({ name: split.name, type: typeOf(split.name) })));
    const { split, index, start, stop } = isObject(body) ? body : {};
    if (typeof split !== "string") throw invalidOption("`split` must be the name of a split");
    const count = await tasks.count(split);
    if (route === "num_tasks") return ok({ num_tasks: count });
    const reference = (at: number): object => ({ split, index: at });
    if (route === "task") {
      const at = indexIn(index, count, "index");
      if (at === undefined || at < 0 || at >= count) {
        throw invalidOption(
          `the split ${split} has ${count} tasks, numbered from 0; \`index\` must be the number of one of them`,
        );
      }
      return ok({ task: reference(at), env_name: name });
    }
    const limit = (at: number): number => Math.max(0, Math.min(count, at));
    const [from, to] = route === "tasks" ? [0, count] : [indexIn(start, count, "start"), indexIn(stop, count, "stop")];
    const first = limit(from ?? 0);
    const tasksIn = Array.from({ length: Math.max(0, limit(to ?? count) - first) }, (_, at) => reference(first + at));
    return ok({ tasks: tasksIn, env_name: name });
  };
}

const ok = (body: unknown): Reply => ({ status: 200, body });

/** Reads an index as Python does: a negative index counts from the end. Undefined if the value is missing. */
function indexIn(value: unknown, count: number, name: string): number | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || !Number.isInteger(value)) throw invalidOption(`\`${name}\` must be a whole number`);
  return value < 0 ? value + count : value;
}

/** Guesses the purpose of a split from its name. */
function typeOf(name: string): "train" | "validation" | "test" {
  if (/^(?:default$|train)/i.test(name)) return "train";
  return /^(?:val|dev|eval)/i.test(name) ? "validation" : "test";
}
