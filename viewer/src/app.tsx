// The frame around every page: navigation, the token dialog, and the page that the address names.
import { useEffect, useErrorBoundary, useRef } from "preact/hooks";
import type { About } from "../../src/rollout/collection-view.ts";
import { linkTo, useAddress, type Address } from "./address.ts";
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
import { Failure, Await, Nothing } from "./parts/notice.tsx";
import { ThemeSwitch } from "./parts/theme-switch.tsx";
import { TokenDialog } from "./parts/token-dialog.tsx";

export function App({ source }: { source: Source }) {
  const loaded = useLoaded(() => source.about(), [source]);
  const address = useAddress();
  useFocusOnPageChange(address.at.join("/"));
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        To the content
      </a>
      <Header address={address} about={loaded.state === "ready" ? loaded.value : undefined} isLive={source.isLive} />
      <main id="main" tabIndex={-1}>
        <Await loaded={loaded}>
          {(about) => (
            <PageContext.Provider value={{ source, about }}>
              <Guarded key={address.at.join("/")} address={address} />
            </PageContext.Provider>
          )}
        </Await>
      </main>
      <TokenDialog />
    </>
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

/** With more links the header wraps; the home page lists them all. */
const maxLinks = 4;

function Header({ address, about, isLive }: { address: Address; about: About | undefined; isLive: boolean }) {
  const [place = "", second] = address.at;
  const nav = useRef<HTMLElement>(null);
  const { environments = [], agents = [], runs } = isLive ? (about ?? {}) : {};
  const places = [
    ...environments.map(({ name }) => ({ name: `Sessions of ${name}`, to: ["sessions", name] })),
    ...agents.map(({ name }) => ({ name: `Chat with ${name}`, to: ["agents", name] })),
  ].map((link) => ({ ...link, isHere: link.to[0] === place && link.to[1] === second }));
  const isMany = places.length > maxLinks;
  const links = [
    {
      name: isMany || runs?.length === 0 ? "Home" : "Runs",
      to: [],
      isHere: ["", "runs", "compare"].includes(place),
    },
    ...places.filter(({ isHere }) => !isMany || isHere),
    ...(isLive ? [{ name: "Live", to: ["live"], isHere: place === "live" }] : []),
  ];
  useEffect(() => {
    const here = nav.current?.querySelector<HTMLElement>("[aria-current]");
    // On a narrow page the current link may be scrolled out of sight.
    if (nav.current && here) nav.current.scrollLeft = here.offsetLeft - nav.current.offsetLeft;
  }, [about, place, second]);
  return (
    <header class="top">
      <a class="brand" href={linkTo([])}>
        <span aria-hidden="true">H</span> Holdfast
      </a>
      <nav aria-label="Pages" ref={nav}>
        {links.map(({ name, to, isHere }) => (
          <a key={name} href={linkTo(to)} aria-current={isHere ? "page" : undefined}>
            {name}
          </a>
        ))}
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
    const nameOf = (part: string): string => runs.find(({ run }) => run === part)?.name ?? part;
    const isRun = (index: number): boolean => index > 0 && (place === "compare" || (place === "runs" && index === 1));
    const named = at.map((part, index) => (isRun(index) ? nameOf(part) : part));
    // The most specific part comes first, to tell browser tabs apart.
    document.title = ["Holdfast", ...named].toReversed().join(" · ");
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
