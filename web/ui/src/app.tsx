/** The frame around all pages: header, navigation, and the form for a token. */

import { useEffect, useState } from "preact/hooks";
import { LabPage } from "./lab/lab.js";
import { LivePage } from "./live/live.js";
import { MatchesPage } from "./matches/matches.js";
import { ReportsPage } from "./reports/reports.js";
import { onUnauthorized } from "./server.js";
import { TokenForm } from "./token-form.js";

const PAGES = [
  { path: "./", name: "Live", page: LivePage },
  { path: "matches", name: "Matches", page: MatchesPage },
  { path: "lab", name: "Lab", page: LabPage },
  { path: "reports", name: "Reports", page: ReportsPage },
] as const;

/** @param pathname - the document's path. Only the last segment counts, because a proxy may add a path before it. */
export function App({ pathname }: { pathname: string }) {
  const current = PAGES.find(({ path }) => pathname.endsWith(`/${path}`)) ?? PAGES[0];
  const Page = current.page;
  const [isRefused, setIsRefused] = useState(false);
  useEffect(() => onUnauthorized(() => setIsRefused(true)), []);
  document.title = `${current.name} · Thalweg`;
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
          {PAGES.map(({ path, name }) => (
            <a key={path} href={path} aria-current={path === current.path ? "page" : undefined}>
              {name}
            </a>
          ))}
          <a href="docs/">Docs</a>
        </nav>
      </header>
      <main id="main" tabIndex={-1}>
        {isRefused ? <TokenForm taken={() => setIsRefused(false)} /> : <Page />}
      </main>
    </>
  );
}
