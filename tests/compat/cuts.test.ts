// Every point at which a kill could have stopped version 0.1: its journals, cut after each line, continue as they would have then.
import { expect, test } from "vitest";
import { expected, journals, recordedIn } from "./fixtures.ts";
import { fill, type Line } from "./journal.ts";
import { asContinued } from "./mended.ts";
import { engines } from "./open.ts";
import { cutConversation, cutEpisode, placeOn, type Place } from "./probe.ts";

interface Cut {
  line: number;
  session: string;
}

async function cutAfter(line: number, lines: Line[]): Promise<Place> {
  const place = placeOn(engines, engines.newStore());
  await fill(place.store, lines.slice(0, line));
  return place;
}

const cuts = Object.entries(expected<Record<string, Cut[]>>("cuts"));

test.each(cuts)("DURABLE: the journal %s of version 0.1, cut after any line, continues", async (name, before) => {
  const lines = journals.get(name) ?? [];
  const apps = new Map(recordedIn([name]).map(({ session, app }) => [session, app]));
  const now: object[] = [];
  for (const { line, session } of before) {
    const app = apps.get(session);
    const place = await cutAfter(line, lines);
    const result = await (app === undefined
      ? cutEpisode(place, session)
      : cutConversation(place, await cutAfter(line, lines), app, session));
    now.push({ line, session, ...result });
  }
  expect(now).toEqual(before.map(asContinued));
});
