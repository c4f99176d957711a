// The frame around every page: where one can go, what is asked of a person, and the page that the address names.
import { useEffect, useErrorBoundary } from "preact/hooks";
import type { About } from "../../src/core/run-view.ts";
import { linkTo, useAddress, type Address } from "./address.ts";
import { messageOf, type Source } from "./data/source.ts";
import { useLoaded } from "./data/use-loaded.ts";
import { KnownContext } from "./known.ts";
import { AgentPage } from "./pages/agents/agent-page.tsx";
import { ChatPage } from "./pages/agents/chat-page.tsx";
import { ComparePage } from "./pages/compare/compare-page.tsx";
import { RowEpisode } from "./pages/episode/row-episode.tsx";
import { SessionEpisode } from "./pages/episode/session-episode.tsx";
import { HomePage } from "./pages/home/home-page.tsx";
import { LivePage } from "./pages/live/live-page.tsx";
import { RunPage } from "./pages/runs/run-page.tsx";
import { SessionsPage } from "./pages/sessions/sessions-page.tsx";
import { Failure, Await, Nothing } from "./parts/notice.tsx";
import { ThemeSwitch } from "./parts/theme-switch.tsx";
import { TokenDialog } from "./parts/token-dialog.tsx";

export function App({ source }: { source: Source }) {
  const loaded = useLoaded(() => source.about(), [source]);
  const address = useAddress();
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        To the content
      </a>
      <Header address={address} about={loaded.state === "ready" ? loaded.value : undefined} isLive={source.isLive} />
      <main id="main" tabIndex={-1}>
        <Await loaded={loaded}>
          {(about) => (
            <KnownContext.Provider value={{ source, about }}>
              <Guarded key={address.at.join("/")} address={address} />
            </KnownContext.Provider>
          )}
        </Await>
      </main>
      <TokenDialog />
    </>
  );
}

/** Not by the hash, which is the address. */
function skip(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Header({ address, about, isLive }: { address: Address; about: About | undefined; isLive: boolean }) {
  const [place = ""] = address.at;
  const links = [
    { name: "Runs", to: [], isHere: ["", "runs", "compare"].includes(place), isShown: true },
    ...(about?.environments ?? []).map(({ name }) => ({
      ...{ name: `Sessions of ${name}`, to: ["sessions", name], isShown: isLive },
      isHere: place === "sessions" && address.at[1] === name,
    })),
    ...(about?.agents ?? []).map(({ name }) => ({
      ...{ name: `Chat with ${name}`, to: ["agents", name], isShown: isLive },
      isHere: place === "agents" && address.at[1] === name,
    })),
    { name: "Live", to: ["live"], isHere: place === "live", isShown: isLive },
  ];
  return (
    <header class="top">
      <a class="brand" href={linkTo([])}>
        <span aria-hidden="true">H</span> Holdfast
      </a>
      <nav aria-label="Pages">
        {links.map(
          ({ name, to, isHere, isShown }) =>
            isShown && (
              <a key={name} href={linkTo(to)} aria-current={isHere ? "page" : undefined}>
                {name}
              </a>
            ),
        )}
      </nav>
      <ThemeSwitch />
    </header>
  );
}

/** A page that fails must not take the others with it. */
function Guarded({ address }: { address: Address }) {
  const [error] = useErrorBoundary();
  if (error) return <Failure message={`This page failed: ${messageOf(error)}`} />;
  return <Page address={address} />;
}

function Page({ address: { at, parameters } }: { address: Address }) {
  const [place, first, second] = at;
  useEffect(() => {
    document.title = ["Holdfast", ...at].join(" · ");
  }, [at.join("/")]);
  if (place === undefined) return <HomePage />;
  if (place === "live") return <LivePage />;
  if (place === "runs" && first !== undefined) {
    if (second === undefined) return <RunPage run={first} parameters={parameters} />;
    return <RowEpisode run={first} row={Number(second)} parameters={parameters} />;
  }
  if (place === "compare" && first !== undefined && second !== undefined) {
    return <ComparePage runs={[first, second]} parameters={parameters} />;
  }
  if (place === "sessions" && first !== undefined) {
    if (second === undefined) return <SessionsPage environment={first} parameters={parameters} />;
    return <SessionEpisode environment={first} session={second} parameters={parameters} />;
  }
  if (place === "agents" && first !== undefined) {
    if (second === undefined) return <AgentPage agent={first} />;
    return <ChatPage agent={first} session={second} parameters={parameters} />;
  }
  return (
    <Nothing>
      There is no such page. <a href={linkTo([])}>To the runs</a>
    </Nothing>
  );
}
