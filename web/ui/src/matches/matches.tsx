/** The match centre: all matches of a feed, or one of them, as they go on. */

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
  // Clocks of matches stand still then: they are not shown as running.
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

/** Which match the address names; `null`: all. */
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
    // What had the focus is gone.
    document.getElementById("main")?.focus();
  };
  return [id, choose];
}

/** A link of this page: it goes there without loading it again, unless that is asked for. */
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
        <h1>Nothing more comes</h1>
        <p>{failure}.</p>
      </div>
    );
  }
  return (
    <div class="empty">
      <Unknown sinceMs={unknownSinceMs} hasVersion={false} />
      <h1>{document === undefined ? "Waiting for the first version" : "This is no match"}</h1>
      <p>
        Of <code>{topic}</code>. The demo has a match feed:
      </p>
      <pre>thalweg serve --demo</pre>
      <p>Any other feed of that shape will do, published to a server whose topics have the kind “value”:</p>
      <pre>{`thalweg serve --topic 'matchesfeed/**,kind=value'
curl -H 'Content-Type: application/json' --data @match.json ${serverUrl(`v1/topics/${topic}`)}`}</pre>
    </div>
  );
}

function Foot({ status, followed: { savings, failure, unknownSinceMs } }: { status: Status; followed: Followed }) {
  const live = unknownSinceMs === null ? "Live" : "Value unknown; connected";
  const away = status.state === "closed" ? (status.reason ?? "Ended") : "Not connected";
  const state = failure ?? (status.state === "open" ? live : away);
  return (
    <p class="foot note" data-versions={savings.versions}>
      {state}
      {status.transport && ` over ${status.transport}`}
      {`. ${counted(savings.versions, "version")} in ${bytes(savings.received)}`}
      {saved(savings)}.
    </p>
  );
}

/** What patches have saved, in words. */
function saved({ whole, share }: Savings): string {
  return share < 0.01
    ? ""
    : `; whole documents would have been ${bytes(whole)}, so ${Math.floor(share * 100)} % was saved`;
}
