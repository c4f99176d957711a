// The page of an agent: its description and its conversations.
import { useState } from "preact/hooks";
import type { Json } from "../../../../src/core/json.ts";
import type { AgentAbout } from "../../../../src/rollout/collection-view.ts";
import { linkTo } from "../../address.ts";
import { ask, post } from "../../data/server.ts";
import { messageOf } from "../../data/source.ts";
import { useAction } from "../../data/use-action.ts";
import { useLoaded } from "../../data/use-loaded.ts";
import { usePageContext } from "../../page-context.ts";
import { count } from "../../parts/format.ts";
import { Await, Failure, Nothing } from "../../parts/notice.tsx";
import { RefusalNote } from "../../parts/refusal-note.tsx";
import { ConversationTitle } from "../sessions/session-about.tsx";
import { SessionTable } from "../sessions/session-table.tsx";
import { useSessionList } from "../sessions/use-session-list.ts";
import "./chat.css";

/** The response of GET {at}/v1/agent. */
interface AgentDetails {
  name: string;
  description: string;
  model: string | null;
  tools: { name: string; description: string; input: Json }[];
  agents: string[];
}

export function AgentPage({ agent: name }: { agent: string }) {
  const agent = usePageContext().about.agents.find((known) => known.name === name);
  const details = useLoaded(
    async (signal) => (agent ? ask<AgentDetails>(`${agent.at}/v1/agent`, { signal }) : undefined),
    [agent?.at],
  );
  if (!agent) return <Failure message={`This server has no agent "${name}".`} />;
  return (
    <>
      <h1>{name}</h1>
      <div class="agent">
        <section class="card" aria-label="About the agent">
          <Await loaded={details}>{(known) => known && <Details agent={known} />}</Await>
        </section>
        <NewConversation agent={agent} />
      </div>
      <Conversations agent={agent} />
    </>
  );
}

function Details({ agent: { description, model, tools, agents } }: { agent: AgentDetails }) {
  return (
    <>
      {description !== "" && <p class="agent-about">{description}</p>}
      <dl class="agent-facts">
        <dt>Model</dt>
        <dd>{model === null ? <span class="dim">none</span> : <code>{model}</code>}</dd>
        {agents.length > 0 && (
          <>
            <dt>Can transfer to</dt>
            <dd>{agents.join(", ")}</dd>
          </>
        )}
        <dt>Tools</dt>
        <dd>
          {tools.length === 0 && <span class="dim">none</span>}
          {tools.map(({ name, description: about, input }) => (
            <details key={name} class="chat-fold">
              <summary>
                <span class="chat-tool">{name}</span> <span class="dim">{about}</span>
              </summary>
              <pre>{JSON.stringify(input, null, 2)}</pre>
            </details>
          ))}
        </dd>
      </dl>
    </>
  );
}

function NewConversation({ agent: { at, name } }: { agent: AgentAbout }) {
  const [user, setUser] = useState("");
  const [state, setState] = useState("");
  const act = useAction();
  const open = async (signal: AbortSignal): Promise<void> => {
    const given = { ...(user !== "" && { user }), ...(state.trim() !== "" && { state: parsed(state) }) };
    const { session } = await post<{ session: string }>(`${at}/v1/sessions`, given, signal);
    location.hash = linkTo(["agents", name, session]);
  };
  return (
    <form
      class="card agent-new"
      onSubmit={(event) => {
        event.preventDefault();
        act.start(open);
      }}
    >
      <h2>Start a conversation</h2>
      <label>
        User <span class="dim">name (optional)</span>
        <input value={user} placeholder="user" onInput={({ currentTarget }) => setUser(currentTarget.value)} />
      </label>
      <label>
        State <span class="dim">initial state as JSON (optional)</span>
        <textarea
          rows={2}
          spellcheck={false}
          placeholder="{}"
          value={state}
          onInput={({ currentTarget }) => setState(currentTarget.value)}
        />
      </label>
      <RefusalNote act={act} />
      <button class="primary" disabled={act.isBusy}>
        New conversation
      </button>
    </form>
  );
}

function parsed(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (thrown) {
    throw new Error(`The state is not JSON: ${messageOf(thrown)}`, { cause: thrown });
  }
}

function Conversations({ agent: { at, name } }: { agent: AgentAbout }) {
  const { sessions, isComplete, isHeld, failure, at: now, readMore } = useSessionList(at);
  return (
    <section class="card">
      <p class="row sessions-count">
        <span>
          {count(sessions.length, "conversation")}
          {isComplete && sessions.length > 1 ? ", newest first" : ""}
        </span>
        {isHeld && <button onClick={readMore}>Load more</button>}
        {/* Not a live region: the count may change with every poll. */}
        <span class="bad" role="status">
          {failure && `${failure} Trying again…`}
        </span>
      </p>
      {now > 0 && sessions.length === 0 && !failure && <Nothing>There are no conversations yet.</Nothing>}
      {sessions.length > 0 && (
        <SessionTable
          label={`Conversations with ${name}`}
          rows={sessions}
          now={now}
          link={({ session }) => linkTo(["agents", name, session])}
          title={{
            heading: "Title or first message",
            cell: (row) => (
              <a href={linkTo(["agents", name, row.session])} tabIndex={-1}>
                <ConversationTitle at={at} row={row} />
              </a>
            ),
          }}
          last={{ heading: "User", cell: ({ user }) => user }}
        />
      )}
    </section>
  );
}
