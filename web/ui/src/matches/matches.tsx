/** The match centre: all matches of a feed, or one match, live. */

import { useEffect, useState } from "preact/hooks";
import type { Status } from "thalweg";
import { bytes, counted } from "../format.js";
import type { Savings } from "../live/savings.js";
import { Unknown } from "../live/unknown.js";
import { LostNotice, useLost } from "../lost.js";
import { serverUrl } from "../server.js";
import { MatchList } from "./list.js";
import { briefs, isId, LIST_TOPIC, match, matchTopic } from "./match.js";
import { MatchView } from "./match-view.js";
import { type Followed, useSession, useTopic } from "./topic.js";
import "./matches.css";

export function MatchesPage() {
  const { session, status } = useSession();
  const [id, choose] = useChosen();
  const followed = useTopic(session, id === null ? LIST_TOPIC : matchTopic(id));
  const { document: content } = followed;
  const one = id === null ? null : match(content);
  const all = id === null ? briefs(content) : null;
  const isLost = useLost(status);
  // Clocks stand still without live data, and must not look as if they were running.
  const stale = isLost || followed.unknownSinceMs !== null || followed.failure !== null ? "stale" : undefined;
  useEffect(() => {
    const name = one ? `${one.home.name} – ${one.away.name}` : "Matches";
    document.title = `${name} · Thalweg`;
  }, [one?.home.name, one?.away.name]);
  return (
    <section class="matches">
      {id !== null && (
        <p class="back">
          <Link to="matches" go={() => choose(null)}>
            All matches
          </Link>
        </p>
      )}
      {isLost && (
        <LostNotice status={status} hasData={one !== null || all !== null} reconnect={() => session.reconnect()} />
      )}
      {(one || all) && <Unknown sinceMs={followed.unknownSinceMs} hasVersion={true} />}
      {one && (
        <div class={stale}>
          <MatchView match={one} />
        </div>
      )}
      {all && (
        <div class={stale}>
          <h1>Matches</h1>
          <MatchList
            matches={all}
            link={(brief, content) => (
              <Link to={`matches?match=${brief.id}`} go={() => choose(brief.id)}>
                {content}
              </Link>
            )}
          />
        </div>
      )}
      {!one && !all && <Waiting topic={id === null ? LIST_TOPIC : matchTopic(id)} followed={followed} />}
      {(one || all) && <Foot status={status} followed={followed} />}
    </section>
  );
}

/** Returns the match that the address names; `null` for all matches. */
function useChosen(): [string | null, (id: string | null) => void] {
  const read = (): string | null => {
    const id = new URLSearchParams(location.search).get("match");
    return id !== null && isId(id) ? id : null;
  };
  const [id, setId] = useState(read);
  useEffect(() => {
    const back = (): void => setId(read());
    addEventListener("popstate", back);
    return () => removeEventListener("popstate", back);
  }, []);
  const choose = (id: string | null): void => {
    history.pushState(null, "", id === null ? "matches" : `matches?match=${id}`);
    setId(id);
    scrollTo(0, 0);
    // The element that had the focus is no longer on the page.
    document.getElementById("main")?.focus();
  };
  return [id, choose];
}

/** A link within this page. It does not reload the page, unless the reader opens it in a new tab or window. */
function Link({ to, go, children }: { to: string; go(): void; children: preact.ComponentChildren }) {
  return (
    <a
      href={to}
      onClick={(event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
        event.preventDefault();
        go();
      }}
    >
      {children}
    </a>
  );
}

function Waiting({ topic, followed: { document, failure, unknownSinceMs } }: { topic: string; followed: Followed }) {
  if (failure !== null) {
    return (
      <div class="empty" role="alert">
        <h1>The subscription has ended</h1>
        <p>{failure}.</p>
      </div>
    );
  }
  return (
    <div class="empty">
      <Unknown sinceMs={unknownSinceMs} hasVersion={false} />
      <h1>{document === undefined ? "Waiting for the first version" : "This document is not from a match feed"}</h1>
      <p>
        This page reads the topic <code>{topic}</code>. The demo publishes a match feed:
      </p>
      <pre>thalweg serve --demo</pre>
      <p>To show your own feed, start a server with value topics and publish documents of the same structure:</p>
      <pre>{`thalweg serve --topic 'matchesfeed/**,kind=value'
curl -H 'Content-Type: application/json' --data @match.json ${serverUrl(`v1/topics/${topic}`)}`}</pre>
    </div>
  );
}

function Foot({ status, followed: { savings, failure, unknownSinceMs } }: { status: Status; followed: Followed }) {
  const live = unknownSinceMs === null ? "Live" : "Newest version unknown; connected";
  const away = status.state === "closed" ? (status.reason ?? "Ended") : "Not connected";
  const state = failure ?? (status.state === "open" ? live : away);
  return (
    <p class="foot note" data-versions={savings.versions}>
      {state}
      {failure === null && status.transport && ` over ${status.transport}`}
      {`. Received ${counted(savings.versions, "version")} in ${bytes(savings.received)}`}
      {saved(savings)}.
    </p>
  );
}

/** Returns the text about the bytes that patches save; an empty string below 1 %. */
function saved({ whole, share }: Savings): string {
  return share < 0.01 ? "" : `; patches saved ${Math.floor(share * 100)} % of ${bytes(whole)}`;
}
