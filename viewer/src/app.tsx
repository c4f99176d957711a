// The frame around every page: navigation, the token dialog, and the page that the address names.
import { useEffect, useErrorBoundary, useMemo, useRef } from "preact/hooks";
import type { About } from "../../src/rollout/collection-view.ts";
import { linkTo, useAddress, type Address } from "./address.ts";
import { findRun, nameRuns } from "./data/references.ts";
import { messageOf, type Source } from "./data/source.ts";
import { useLoaded } from "./data/use-loaded.ts";
import { PageContext, usePageContext } from "./page-context.ts";
import { AgentPage } from "./pages/agents/agent-page.tsx";
import { ChatPage } from "./pages/agents/chat-page.tsx";
import { ComparePage } from "./pages/compare/compare-page.tsx";
import { RowEpisode } from "./pages/episode/row-episode.tsx";
import { SessionEpisode } from "./pages/episode/session-episode.tsx";
import { HomePage } from "./pages/home/home-page.tsx";
import { LivePage } from "./pages/live/live-page.tsx";
import { RunPage } from "./pages/runs/run-page.tsx";
import { SessionsPage } from "./pages/sessions/sessions-page.tsx";
import { TrainingPage } from "./pages/training/training-page.tsx";
import { Failure, Await, Nothing } from "./parts/notice.tsx";
import { Menu } from "./parts/menu.tsx";
import { ThemeSwitch } from "./parts/theme-switch.tsx";
import { TokenDialog } from "./parts/token-dialog.tsx";

export function App({ source }: { source: Source }) {
  const loaded = useLoaded(() => source.about(), [source]);
  const address = useAddress();
  useFocusOnPageChange(address.at.join("/"));
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to content
      </a>
      <Header address={address} about={loaded.state === "ready" ? loaded.value : undefined} isLive={source.isLive} />
      <main id="main" tabIndex={-1}>
        <Await loaded={loaded}>{(about) => <Known {...{ source, about, address }} />}</Await>
      </main>
      <TokenDialog />
    </>
  );
}

function Known({ source, about, address }: { source: Source; about: About; address: Address }) {
  const known = useMemo(() => ({ source, about: { ...about, runs: nameRuns(about.runs) } }), [source, about]);
  return (
    <PageContext.Provider value={known}>
      <Guarded key={address.at.join("/")} address={address} />
    </PageContext.Provider>
  );
}

/** Scrolls a new page to its top and focuses it, so that the keyboard and a screen reader start there too. */
function useFocusOnPageChange(page: string): void {
  const last = useRef(page);
  useEffect(() => {
    if (last.current === page) return;
    last.current = page;
    document.getElementById("main")?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [page]);
}

/** Moves the focus to the content. A link to `#main` would overwrite the hash, which holds the address. */
function skip(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Header({ address, about, isLive }: { address: Address; about: About | undefined; isLive: boolean }) {
  const [place = "", second] = address.at;
  const { environments = [], agents = [], runs } = isLive ? (about ?? {}) : {};
  const toLinks = (to: "sessions" | "agents", known: { name: string }[]) =>
    known.map(({ name }) => ({ name, href: linkTo([to, name]), isHere: place === to && second === name }));
  return (
    <header class="top">
      <a class="brand" href={linkTo([])}>
        <span aria-hidden="true">H</span> Holdfast
      </a>
      <nav aria-label="Pages">
        <a href={linkTo([])} aria-current={["", "runs", "compare"].includes(place) ? "page" : undefined}>
          {runs?.length === 0 ? "Home" : "Runs"}
        </a>
        {isLive && about?.hasCurves && (
          <a href={linkTo(["training"])} aria-current={place === "training" ? "page" : undefined}>
            Training
          </a>
        )}
        <Menu name="Sessions" links={toLinks("sessions", environments)} />
        <Menu name="Chat" links={toLinks("agents", agents)} />
        {isLive && (
          <a href={linkTo(["live"])} aria-current={place === "live" ? "page" : undefined}>
            Live
          </a>
        )}
        {isLive && (
          <Menu
            name="API"
            links={[...environments, ...agents].map(({ name, at }) => ({ name, href: `..${at}/docs`, isHere: false }))}
          />
        )}
      </nav>
      <ThemeSwitch />
    </header>
  );
}

/** Catches errors of one page, so that the other pages stay usable. */
function Guarded({ address }: { address: Address }) {
  const [error] = useErrorBoundary();
  if (error) return <Failure message={`This page failed: ${messageOf(error)}`} />;
  return <Page address={address} />;
}

function Page({ address: { at, parameters } }: { address: Address }) {
  const { runs } = usePageContext().about;
  const [place, first, second] = at;
  useEffect(() => {
    const nameOf = (part: string): string => findRun(runs, part)?.name ?? part;
    const isRun = (index: number): boolean => index > 0 && (place === "compare" || (place === "runs" && index === 1));
    const named = at.map((part, index) => (isRun(index) ? nameOf(part) : part));
    // The most specific part comes first, to tell browser tabs apart.
    document.title = ["Holdfast", ...named].toReversed().join(" · ");
  }, [at.join("/")]);
  if (place === undefined) return <HomePage />;
  if (place === "live") return <LivePage />;
  if (place === "training") return <TrainingPage />;
  const missing = (name: string) => <Failure message={`There is no run called ${name}.`} />;
  if (place === "runs" && first !== undefined) {
    const run = findRun(runs, first);
    if (!run) return missing(first);
    if (second === undefined) return <RunPage run={run} parameters={parameters} />;
    return <RowEpisode run={run} name={second} parameters={parameters} />;
  }
  if (place === "compare" && first !== undefined && second !== undefined) {
    const [a, b] = [findRun(runs, first), findRun(runs, second)];
    if (!a || !b) return missing(a ? second : first);
    return <ComparePage runs={[a, b]} parameters={parameters} />;
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
      This page does not exist. <a href={linkTo([])}>Go to the start page</a>
    </Nothing>
  );
}
