// A conversation with an agent: messages, events and state.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Json } from "../../../../src/core/json.ts";
import type { SessionInfo } from "../../../../src/core/sessions.ts";
import type { AgentAbout } from "../../../../src/rollout/collection-view.ts";
import { linkTo, setParameters } from "../../address.ts";
import type { Connection } from "../../data/events.ts";
import { ask, post } from "../../data/server.ts";
import { useLoaded } from "../../data/use-loaded.ts";
import { usePageContext } from "../../page-context.ts";
import { ConfirmDialog } from "../../parts/confirm-dialog.tsx";
import { count } from "../../parts/format.ts";
import { Await, Failure, Nothing } from "../../parts/notice.tsx";
import { RawTextSwitch } from "../../parts/text-mode.tsx";
import { EventCard } from "../episode/event-card.tsx";
import { StateAt } from "../episode/state-at.tsx";
import { Timeline } from "../episode/timeline.tsx";
import "./chat.css";
import { CommitList } from "./commit-list.tsx";
import { Composer } from "./composer.tsx";
import { DraftView, TurnView } from "./turn-view.tsx";
import { buildTurns, findUnfinished, type Turn } from "./turns.ts";
import { useConversation } from "./use-conversation.ts";

export interface ChatPageProps {
  agent: string;
  session: string;
  parameters: URLSearchParams;
}

export function ChatPage({ agent: name, session, parameters }: ChatPageProps) {
  const agent = usePageContext().about.agents.find((known) => known.name === name);
  const path = `${agent?.at}/v1/sessions/${encodeURIComponent(session)}`;
  const info = useLoaded(async () => (agent ? ask<SessionInfo>(path) : undefined), [path]);
  if (!agent) return <Failure message={`This server has no agent "${name}".`} />;
  return <Await loaded={info}>{(known) => known && <Chat agent={agent} info={known} parameters={parameters} />}</Await>;
}

const connections: { [state in Connection]: string } = {
  connecting: "Connecting…",
  open: "Live",
  lost: "The connection was lost. Trying again…",
  ended: "",
};

function Chat({ agent, info, parameters }: { agent: AgentAbout; info: SessionInfo; parameters: URLSearchParams }) {
  const { session, user } = info;
  const path = `${agent.at}/v1/sessions/${encodeURIComponent(session)}`;
  const conversation = useConversation(agent.at, session);
  const { events, drafts, connection } = conversation;
  const turns = useMemo(() => buildTurns(events), [events]);
  const [text, setText] = useState("");
  const [rewound, setRewound] = useState<Turn>();
  const [isClosing, setClosing] = useState(false);
  const [isLogOpen, setLogOpen] = useState(false);
  const shared = useSharedState(path, events.length);
  const isEnded = connection === "ended" || events.some(({ type }) => type === "session.closed");
  const wanted = Number(parameters.get("v"));
  const version = wanted >= 1 && wanted <= events.length ? wanted : events.length;
  const shownEvent = events[version - 1];
  // A reader at the newest version keeps following the newest version.
  const show = (to: number): void => setParameters({ v: to === events.length ? undefined : to }, true);
  const canRewind = !isEnded && !conversation.isRunning;
  // Memoised, because a conversation may be long and every streamed piece of an answer renders the page.
  const said = useMemo(
    () =>
      turns.map((turn) => (
        <TurnView
          key={turn.version}
          turn={turn}
          agent={agent.name}
          onVersion={show}
          onRewind={canRewind ? () => setRewound(turn) : undefined}
        />
      )),
    [turns, canRewind],
  );
  const log = useScrollToEnd(events.length + drafts.reduce((sum, draft) => sum + draft.text.length, 0));
  return (
    <>
      <div class="row chat-bar">
        <h1>
          <a href={linkTo(["agents", agent.name])}>{agent.name}</a>
        </h1>
        <code class="dim chat-id">{session}</code>
        {/* "user" is the default, which says nothing. */}
        {user !== undefined && user !== "user" && <span class="dim">user {user}</span>}
        <span role="status" class={connection === "lost" ? "warn" : "dim"}>
          {isEnded ? "Ended" : connections[connection]}
        </span>
        <RawTextSwitch />
        {!isEnded && <button onClick={() => setClosing(true)}>Close the conversation</button>}
      </div>
      <div class="chat">
        <section class="card chat-talk" aria-label="Conversation">
          <div class="chat-log" role="log" tabIndex={0} ref={log}>
            {turns.length === 0 && (
              <Nothing>{isEnded ? "This conversation has no messages." : "Send the first message."}</Nothing>
            )}
            {said}
            {drafts.map((draft) => (
              <DraftView key={draft.path} draft={draft} />
            ))}
          </div>
          {isEnded ? (
            <p class="dim chat-failed">This conversation has ended. You can read it, but not send messages.</p>
          ) : (
            <Composer
              conversation={conversation}
              text={text}
              onText={setText}
              isCutShort={findUnfinished(turns) !== undefined}
            />
          )}
        </section>
        <div class="chat-side">
          <div class="card">{events.length > 0 && <StateAt {...{ events, version, shared }} isStateOnly />}</div>
          <details class="card chat-happened" onToggle={({ currentTarget }) => setLogOpen(currentTarget.open)}>
            <summary>Log: {count(events.length, "commit")}</summary>
            {isLogOpen && events.length > 0 && (
              <>
                <Timeline events={events} version={version} onVersion={show} />
                <CommitList events={events} version={version} onVersion={show} />
                {shownEvent && <EventCard event={shownEvent} />}
              </>
            )}
          </details>
        </div>
      </div>
      {rewound && (
        <ConfirmDialog
          title="Rewind the conversation?"
          what="The conversation returns to its state before this turn. Later turns stay in the log, marked as undone. Shared keys (user:, app:) keep their current values."
          action="Rewind"
          act={async () => {
            await post(`${path}/rewind`, { invocation: rewound.invocation });
            const [first] = rewound.entries;
            if (text === "" && first?.kind === "said") setText(first.text);
            // Runs after the dialog has returned the focus to its button, which disappears with the turn.
            requestAnimationFrame(() => document.getElementById("chat-message")?.focus());
          }}
          onEnd={() => setRewound(undefined)}
        />
      )}
      {isClosing && (
        <ConfirmDialog
          title="Close the conversation?"
          what="You can still read it, but nobody can send messages."
          action="Close it"
          act={async () => void (await ask(path, { method: "DELETE" }))}
          onEnd={() => setClosing(false)}
        />
      )}
    </>
  );
}

/** The current `user:` and `app:` keys. The log of a conversation has only the keys of its own writes. */
function useSharedState(path: string, version: number): { readonly [key: string]: Json } | undefined {
  const [shared, setShared] = useState<{ readonly [key: string]: Json }>();
  useEffect(() => {
    const stop = new AbortController();
    ask<{ state: { [key: string]: Json } }>(`${path}/state`, { signal: stop.signal }).then(
      ({ state }) =>
        !stop.signal.aborted &&
        setShared(Object.fromEntries(Object.entries(state).filter(([key]) => /^(user|app):/.test(key)))),
      // Without the shared state, the page shows only the keys in the log.
      () => undefined,
    );
    return () => stop.abort();
  }, [path, version]);
  return shared;
}

/** Keeps the end in view while the conversation grows, unless the reader has scrolled up. */
function useScrollToEnd(size: number) {
  const element = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    const log = element.current;
    if (!log) return undefined;
    let last = log.scrollTop;
    const scrolled = (): void => {
      const isNear = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      // Turns that come into view get their real height, which moves the end. Only a scroll up comes from the reader.
      if (isNear) isAtEnd.current = true;
      else if (log.scrollTop < last) isAtEnd.current = false;
      last = log.scrollTop;
    };
    const grown = new ResizeObserver(() => {
      if (isAtEnd.current) log.scrollTop = log.scrollHeight;
    });
    const watch = new MutationObserver(() => {
      for (const child of log.children) grown.observe(child);
    });
    for (const child of log.children) grown.observe(child);
    watch.observe(log, { childList: true });
    log.addEventListener("scroll", scrolled, { passive: true });
    return () => {
      log.removeEventListener("scroll", scrolled);
      grown.disconnect();
      watch.disconnect();
    };
  }, []);
  useLayoutEffect(() => {
    const log = element.current;
    if (log && isAtEnd.current) log.scrollTop = log.scrollHeight;
  }, [size]);
  return element;
}
