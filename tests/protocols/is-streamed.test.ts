// isStreamed(): the agents whose answers are streamed in pieces.
import { defineAgent, parallel, scriptedModel, sequence } from "holdfast";
import { expect, test, vi } from "vitest";
import { createFamily } from "../../src/agent/transfer.ts";
import { isStreamed } from "../../src/protocols/http/is-streamed.ts";

const speaker = (name: string) => defineAgent({ name, model: scriptedModel([]) });

test("the path of an answer is parsed once, not for every piece", () => {
  const both = parallel({ name: "both", agents: [speaker("left"), speaker("right")] });
  const family = createFamily(sequence({ name: "all", agents: [both, speaker("last")] }));
  const find = vi.spyOn(family, "find");
  for (const [path, wanted] of [
    ["all/1.last", true],
    ["all/0.both/left", false],
    ["all/1.last#call", false],
  ] as const) {
    for (let piece = 0; piece < 3; piece++) expect(isStreamed(family, path)).toBe(wanted);
  }
  expect(find.mock.calls).toEqual([["all"], ["last"], ["all"], ["both"]]);
});
