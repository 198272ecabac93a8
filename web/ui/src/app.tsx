/** The frame around all pages: header, navigation, and the form for a token. */

import { useEffect, useState } from "preact/hooks";
import { LabPage } from "./lab/lab.js";
import { read } from "./live/address.js";
import { LivePage } from "./live/live.js";
import { MatchesPage } from "./matches/matches.js";
import { OverviewPage } from "./overview/overview.js";
import { ReportsPage } from "./reports/reports.js";
import { onUnauthorized, request } from "./server.js";
import { TokenForm } from "./token-form.js";

const OVERVIEW = { path: "./", name: "Overview", page: OverviewPage } as const;
const LIVE = { path: "live", name: "Live", page: LivePage } as const;
const PAGES = [
  OVERVIEW,
  LIVE,
  { path: "matches", name: "Matches", page: MatchesPage },
  { path: "lab", name: "Lab", page: LabPage },
  { path: "reports", name: "Reports", page: ReportsPage },
] as const;

/** A document of its own, demo.html, with the same header. */
const DEMO = { path: "demo", name: "Demo" } as const;
const LINKS = PAGES.flatMap<{ path: string; name: string }>((page) => (page === OVERVIEW ? [page, DEMO] : [page]));

/** Returns the page at a path. Only the last segment counts, because a proxy may add a path before it. */
function pageAt(pathname: string, mayInspect: boolean): (typeof PAGES)[number] {
  const named = PAGES.find(({ path }) => pathname.endsWith(`/${path}`)) ?? OVERVIEW;
  if (named !== OVERVIEW) return named;
  const { topic, query } = read(location.search);
  // The root also shows the topic or the query that its address names.
  return mayInspect && topic === null && query === null ? OVERVIEW : LIVE;
}

/** @param pathname - the document's path. */
export function App({ pathname }: { pathname: string }) {
  const [isRefused, setIsRefused] = useState(false);
  const [mayInspect, setMayInspect] = useState(true);
  useEffect(() => onUnauthorized(() => setIsRefused(true)), []);
  const current = pageAt(pathname, mayInspect);
  document.title = `${current.name} · Thalweg`;
  const taken = (): void => {
    setIsRefused(false);
    setMayInspect(true);
  };
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="top">
        <a class="brand" href="./" aria-label="Thalweg">
          <svg viewBox="0 0 32 32" aria-hidden="true">
            <path d="M4 6c8 0 6 8 12 10s4 10 12 10" />
          </svg>
          Thalweg
        </a>
        <nav aria-label="Pages">
          {LINKS.filter((page) => mayInspect || page !== OVERVIEW).map(({ path, name }) => (
            <a key={path} href={path} aria-current={name === current.name ? "page" : undefined}>
              {name}
            </a>
          ))}
          <a href="docs/">Docs</a>
        </nav>
      </header>
      <main id="main" tabIndex={-1}>
        {isRefused ? <TokenForm taken={taken} /> : <Content page={current} refused={() => void leave(setMayInspect)} />}
      </main>
    </>
  );
}

/** Leaves the overview, which this reader may not see: for the demo if the server has it, otherwise for the live page. */
async function leave(setMayInspect: (may: boolean) => void): Promise<void> {
  const hasDemo = await request("v1/columns/car-positions", { isQuiet: true }).then(
    ({ ok }) => ok,
    () => false,
  );
  if (hasDemo) location.replace(DEMO.path);
  else setMayInspect(false);
}

function Content({ page, refused }: { page: (typeof PAGES)[number]; refused(): void }) {
  if (page.name === "Overview") return <page.page refused={refused} />;
  const { page: Page } = page;
  return <Page />;
}
