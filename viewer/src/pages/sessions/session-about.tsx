// What a session is about: the task and reward of an episode, the first message of a conversation.
import type { NumberedEvent } from "../../../../src/core/event.ts";
import { isMessage, toText } from "../../../../src/core/model.ts";
import type { SessionInfo } from "../../../../src/core/sessions.ts";
import { useEffect, useState } from "preact/hooks";
import { ask } from "../../data/server.ts";
import { short } from "../../parts/format.ts";
import { preview } from "../../parts/json-rows.ts";
import { Reward } from "../episode/episode-header.tsx";
import { currentVerdict } from "./current-verdict.ts";
import type { SessionRow } from "./session-list.ts";

/** Rows that are only scrolled past are not loaded. */
const loadDelay = 150;
const mostKept = 2_000;
/** The number of events that are read to find a verdict. */
const mostRead = 8;
const kept = new Map<string, Promise<unknown>>();

/** Loads a value for a row in view and caches it. A failure leaves the cell empty. */
function useRowValue<T>(key: string, load: () => Promise<T>): T | undefined {
  const [found, setFound] = useState<{ key: string; value: T }>();
  useEffect(() => {
    let isGone = false;
    const take = (): void => {
      const known = (kept.get(key) as Promise<T> | undefined) ?? load();
      kept.set(key, known);
      const [oldest] = kept.keys();
      if (kept.size > mostKept && oldest !== undefined) kept.delete(oldest);
      known.then(
        (value) => !isGone && setFound({ key, value }),
        () => kept.delete(key),
      );
    };
    const timer = setTimeout(take, kept.has(key) ? 0 : loadDelay);
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [key]);
  return found?.key === key ? found.value : undefined;
}

const pathOf = (at: string, session: string): string => `${at}/v1/sessions/${encodeURIComponent(session)}`;

async function readEvents(at: string, session: string, after: number, limit: number): Promise<NumberedEvent[]> {
  const path = `${pathOf(at, session)}/events?after=${after}&limit=${limit}`;
  return (await ask<{ events: NumberedEvent[] }>(path)).events;
}

/** The task of an episode, with its number and repeat if it belongs to a collection. */
export function SessionTask({ at, row: { session } }: { at: string; row: SessionRow }) {
  const info = useRowValue(`task ${at} ${session}`, () => ask<SessionInfo>(pathOf(at, session)));
  if (!info) return null;
  const { labels, task } = info;
  const [number, repeat] = [labels["_ng_task_index"], labels["_ng_rollout_index"]];
  const name =
    typeof number === "number" ? `task ${number}${typeof repeat === "number" ? `, repeat ${repeat}` : ""}` : "";
  return (
    <>
      {name !== "" && <span>{name} </span>}
      {task !== null && <span class="dim mono">{preview(task, 120)}</span>}
    </>
  );
}

/** The reward, if the state has not changed since it was given. */
export function SessionResult({ at, row: { session, version } }: { at: string; row: SessionRow }) {
  // The end, and requests to verify that were refused or failed, may follow the verdict.
  const events = useRowValue(`result ${at} ${session} ${version}`, () =>
    readEvents(at, session, Math.max(0, version - mostRead), mostRead),
  );
  const found = events && currentVerdict(events);
  return found ? <Reward value={found.verdict.reward} /> : null;
}

/** The title of a conversation, or else its first message. */
export function ConversationTitle({ at, row }: { at: string; row: SessionRow }) {
  const title = row.labels?.["title"];
  return typeof title === "string" && title !== "" ? <b>{short(title, 160)}</b> : <FirstMessage at={at} row={row} />;
}

function FirstMessage({ at, row: { session } }: { at: string; row: SessionRow }) {
  const events = useRowValue(`message ${at} ${session}`, () => readEvents(at, session, 0, 5));
  const began = events?.find((event) => event.type === "invocation.began");
  const message = began?.items.find(isMessage);
  if (events && !message) return <span class="dim">no message yet</span>;
  return <>{message ? short(toText(message.content), 160) : "…"}</>;
}
