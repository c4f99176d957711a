// A conversation with an agent: messages, events and state.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { SessionInfo } from "../../../../src/core/sessions.ts";
import type { AgentAbout } from "../../../../src/rollout/collection-view.ts";
import { linkTo, setParameters } from "../../address.ts";
import type { Connection } from "../../data/events.ts";
import { ask, post } from "../../data/server.ts";
import { useLoaded } from "../../data/use-loaded.ts";
import { usePageContext } from "../../page-context.ts";
import { ConfirmDialog } from "../../parts/confirm-dialog.tsx";
import { Await, Failure, Nothing } from "../../parts/notice.tsx";
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
  const isEnded = connection === "ended" || events.some(({ type }) => type === "session.closed");
  const wanted = Number(parameters.get("v"));
  const version = wanted >= 1 && wanted <= events.length ? wanted : events.length;
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
        <span class="dim">with {user}</span>
        <span role="status" class={connection === "lost" ? "warn" : "dim"}>
          {isEnded ? "Ended" : connections[connection]}
        </span>
        {!isEnded && <button onClick={() => setClosing(true)}>Close the conversation</button>}
      </div>
      <div class="chat">
        <section class="card chat-talk" aria-label="Conversation">
          <div class="chat-log" role="log" tabIndex={0} ref={log}>
            {turns.length === 0 && <Nothing>{isEnded ? "Nothing was said." : "Say something."}</Nothing>}
            {said}
            {drafts.map((draft) => (
              <DraftView key={draft.path} draft={draft} />
            ))}
          </div>
          {isEnded ? (
            <p class="dim chat-failed">This conversation has ended. It can be read, and nothing more can be said.</p>
          ) : (
            <Composer
              conversation={conversation}
              text={text}
              onText={setText}
              isCutShort={findUnfinished(turns) !== undefined}
            />
          )}
        </section>
        <section class="card chat-happened" aria-label="What happened">
          <h2>Commits</h2>
          {events.length > 0 && <Timeline events={events} version={version} onVersion={show} />}
          <CommitList events={events} version={version} onVersion={show} />
        </section>
        <div class="card chat-state">{events.length > 0 && <StateAt events={events} version={version} />}</div>
      </div>
      {rewound && (
        <ConfirmDialog
          title="Rewind the conversation?"
          what={`It will be what it was before this turn. The turns from there on stay in the log, as undone. What is shared with other conversations (user:, app:) stays as it is.`}
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
          what="It can be read afterwards, and nothing more can be said in it."
          action="Close it"
          act={async () => void (await ask(path, { method: "DELETE" }))}
          onEnd={() => setClosing(false)}
        />
      )}
    </>
  );
}

/** Keeps the end in view while the conversation grows, unless the reader has scrolled up. */
function useScrollToEnd(size: number) {
  const element = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    const log = element.current;
    if (!log) return undefined;
    const scrolled = (): void => {
      isAtEnd.current = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    };
    log.addEventListener("scroll", scrolled, { passive: true });
    return () => log.removeEventListener("scroll", scrolled);
  }, []);
  useLayoutEffect(() => {
    const log = element.current;
    if (log && isAtEnd.current) log.scrollTop = log.scrollHeight;
  }, [size]);
  return element;
}
