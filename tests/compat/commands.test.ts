// Conversations and stores of version 0.1, given to the commands of this version.
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { built } from "../built.ts";
import { linesOf, type Row } from "../cli/rollout-files.ts";
import { ask } from "../cli/run-process.ts";
import { run } from "../e2e/serve-process.ts";
import { copyOf, copyOfAll, recordedIn } from "./fixtures.ts";

// A build takes long on a busy machine, so it is done before the first test.
beforeAll(built, 240_000);

test.each(["concierge", "counter-agent", "session-state"])(
  "REPLAY: run --replay finds a saved session of %s the same",
  async (name) => {
    const folder = copyOfAll();
    const saved = join(folder, `saved/${name}.json`);
    const { code, stdout } = await ask("", join(folder, `examples/${name}`), "--replay", saved);
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.any(String) });
  },
);

test("run --resume continues a saved session", async () => {
  const folder = copyOfAll();
  const saved = join(folder, "saved/concierge.json");
  const { code, stdout } = await ask("what do you know?\n", join(folder, "examples/concierge"), "--resume", saved);
  expect(code).toBe(0);
  expect(stdout.trimEnd()).toMatch(
    /You like quiet tables by the window\. You have booked a table for 2 and a table for 8\.$/,
  );
});

test("run --session continues a session of the store, and shares its user's state with a new one", async () => {
  const folder = copyOfAll();
  const store = ["--store", `sqlite:${join(folder, "sessions.db")}`, "--user", "ann"];
  const talk = (session: string): ReturnType<typeof ask> =>
    ask("what do you know?\n", join(folder, "examples/concierge"), "--session", session, ...store);
  expect((await talk("concierge")).stdout).toContain("You have booked a table for 2 and a table for 8.");
  expect((await talk("another")).stdout).toContain("You like quiet tables by the window.");
});

test("sessions list, events, fork and copy read a store of version 0.1", async () => {
  const file = copyOf("sessions.db");
  const from = ["--from", `sqlite:${file}`];
  const sessions = async (...args: string[]): Promise<Row[]> => {
    const { code, stdout, stderr } = await run("sessions", ...args);
    expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: "" });
    return linesOf(stdout);
  };
  const episodes = recordedIn().flatMap(({ app, session }) => (app === undefined ? [session] : []));
  const listed = (await sessions("list", ...from, "--json")).map(({ session }) => session);
  expect(listed).toEqual(expect.arrayContaining([...episodes, "ended-idle"]));
  expect(await sessions("events", "ledger-whole", ...from, "--json")).toHaveLength(24);
  expect(await sessions("fork", "ledger-whole", ...from, "--version", "17", "--json")).toMatchObject([
    { parent: { session: "ledger-whole", version: 17 } },
  ]);
  const to = `sqlite:${file}.copy`;
  expect(await sessions("copy", `sqlite:${file}`, to, "--json")).toMatchObject([{ problems: [] }]);
  expect(await sessions("list", "--from", to, "--json")).toEqual(await sessions("list", ...from, "--json"));
});
