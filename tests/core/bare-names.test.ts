// The names of an environment's tools, as harnesses show them to a model.
import { expect, test } from "vitest";
import { bareNames } from "../../src/core/bare-names.ts";

test("verify sees the environment's names, also if Codex writes them without hyphens", () => {
  const environment = {
    name: "my-env",
    definitions: new Map([
      ["add", 1],
      ["add-one", 2],
      ["add_two", 3],
    ]),
  };
  const named = (...names: string[]) => ({ output: names.map((name) => ({ name })) });
  const given = named("mcp__my_env__add", "mcp__my-env__add-one", "mcp__my_env__add_one", "mcp__my_env__add_two");
  expect(bareNames(given, environment)).toEqual(named("add", "add-one", "add-one", "add_two"));
  const others = named("add", "mcp__other__add", "mcp__my_env_add");
  expect(bareNames(others, environment)).toBe(others);
});
