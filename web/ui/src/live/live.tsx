/** The live page: selects the topic, and guides the reader if there is none. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { askForToken, type Problem, problemOf, sentence, serverUrl } from "../server.js";
import { Unreachable } from "../unreachable.js";
import { read, write } from "./address.js";
import type { LiveTransport } from "./connection.js";
import { QueryButton } from "./controls.js";
import type { View } from "./defaults.js";
import { type AdHocQuery, examples } from "./query.js";
import { QueryBox } from "./query-box.js";
import { PACE_MS, TopicPage } from "./topic.js";
import type { Search } from "./topic-search.js";
import { count, isTemporary, NotListed, openingOf, PAGE, topics } from "./topics.js";
import "./live.css";

/** Time between two requests for the list of topics, ms. */
const ASK_MS = 5000;

export function LivePage() {
  const address = read(location.search);
  const [topic, setTopic] = useState(address.topic);
  const [view, setView] = useState(address.view);
  const [transport, setTransport] = useState<LiveTransport | null>(null);
  const [paceMs, setPaceMs] = useState(PACE_MS);
  /** The part of the list that the menu shows: a prefix, and a maximum number of topics. */
  const [prefix, setPrefix] = useState("");
  const [limit, setLimit] = useState(PAGE);
  const { known, total, problem, unlisted } = useTopics(prefix, limit);
  /** The topic that the page opened with. Topics that appear later do not replace it. */
  const opened = useRef<string | null>(null);
  opened.current ??= known && known.opening;
  /** Whether the query in the address is still unanswered. Until it is answered, the page shows no topic. */
  const [isAsking, setIsAsking] = useState(address.query !== null);
  const [adHoc, setAdHoc] = useState<AdHocQuery | null>(null);
  const [isQueryOpen, setIsQueryOpen] = useState(isAsking);
  const current = isAsking ? null : (adHoc?.topic ?? topic ?? opened.current);

  const go = (topic: string | null, view: View | null, adHoc: AdHocQuery | null): void => {
    history.replaceState(null, "", write({ topic, view, query: adHoc?.query ?? null }));
    setTopic(topic);
    setView(view);
    setAdHoc(adHoc);
  };
  const names = useMemo(
    () => [...new Set([...(current ? [current] : []), ...(known?.names ?? [])])].sort(temporaryLast),
    [current, known],
  );
  const search: Search = {
    prefix,
    shown: known?.listed ?? 0,
    total,
    isMore: known?.isMore ?? false,
    isListed: unlisted === null,
    narrow(next) {
      if (next !== prefix) setLimit(PAGE);
      setPrefix(next);
    },
    showMore: () => setLimit(limit + PAGE),
  };
  const box = (
    <QueryBox
      key="query"
      isOpen={isQueryOpen}
      first={address.query}
      examples={examples(known?.names ?? [], current)}
      show={(adHoc) => {
        setIsAsking(false);
        // The address may name a view for this query. The view of the previous topic does not apply.
        go(null, isAsking ? view : null, adHoc);
      }}
      fail={() => setIsAsking(false)}
    />
  );
  const rest = (): JSX.Element => {
    if (isAsking) return <h1 class="quiet">Starting the query</h1>;
    if (!current && unlisted) {
      return (
        <Unlisted why={unlisted} choose={(topic) => go(topic, null, null)}>
          <QueryButton isOpen={isQueryOpen} open={setIsQueryOpen} />
        </Unlisted>
      );
    }
    if (!current) return <NoTopic isKnown={known !== null} problem={problem} />;
    return (
      <TopicPage
        key={current}
        topic={current}
        problem={problem}
        topics={names}
        search={search}
        query={adHoc?.query ?? null}
        isQueryOpen={isQueryOpen}
        view={view}
        transport={transport}
        paceMs={paceMs}
        // The view of one topic may not suit another.
        chooseTopic={(topic) => go(topic, null, null)}
        openQuery={setIsQueryOpen}
        chooseView={(view) => go(adHoc ? null : current, view, adHoc)}
        chooseTransport={setTransport}
        choosePace={setPaceMs}
      />
    );
  };
  return (
    <div class="live">
      {box}
      {rest()}
    </div>
  );
}

function temporaryLast(one: string, other: string): number {
  const rank = (topic: string): number => Number(isTemporary(topic));
  return rank(one) - rank(other) || NAMES.compare(one, other);
}

const NAMES = new Intl.Collator("en", { numeric: true });

interface Known {
  /** The names, including the topic that the page opened with. */
  readonly names: readonly string[];
  /** Number of topics from the list. */
  readonly listed: number;
  readonly isMore: boolean;
  readonly opening: string | null;
}

interface Topics {
  readonly known: Known | null;
  /** The number of all topics; `null` if the menu has all of them, or while they are counted. */
  readonly total: Search["total"];
  readonly problem: Problem | null;
  /** The reason why the server does not list topics to this reader. */
  readonly unlisted: string | null;
}

function useTopics(prefix: string, limit: number): Topics {
  const [known, setKnown] = useState<Known | null>(null);
  const [total, setTotal] = useState<Search["total"]>(null);
  const [unlisted, setUnlisted] = useState<string | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    let isOver = false;
    const load = async (): Promise<Known> => {
      const listing = await topics(prefix, limit);
      const opening = await openingOf(listing);
      const names = new Set(listing.topics.map(({ topic }) => topic));
      if (opening) names.add(opening);
      return { names: [...names], listed: listing.topics.length, isMore: listing.isMore, opening };
    };
    const ask = (): void => {
      load().then(
        (now) => {
          if (isOver) return;
          // An unchanged list must not cause a render.
          setKnown((before) => (JSON.stringify(before) === JSON.stringify(now) ? before : now));
          setProblem(null);
        },
        (error: unknown) => {
          if (isOver) return;
          const isRefused = error instanceof NotListed;
          setUnlisted(isRefused ? sentence(error) : null);
          setProblem(isRefused ? null : problemOf(error));
        },
      );
    };
    ask();
    const timer = setInterval(ask, ASK_MS);
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [prefix, limit]);
  // A count takes several requests, so it runs once per prefix.
  const isMore = known?.isMore ?? false;
  useEffect(() => {
    let isOver = false;
    setTotal(null);
    const take = (all: Search["total"]): void => {
      if (!isOver) setTotal(all);
    };
    // Without an answer there is no total. The list itself reports the error.
    if (isMore) count(prefix).then(take, () => {});
    return () => {
      isOver = true;
    };
  }, [prefix, isMore]);
  return { known, total, problem, unlisted };
}

interface UnlistedProps {
  readonly why: string;
  choose(topic: string): void;
  readonly children: ComponentChildren;
}

function Unlisted({ why, choose, children }: UnlistedProps) {
  const [name, setName] = useState("");
  return (
    <section class="empty">
      <h1>Open a topic</h1>
      <p>{why}.</p>
      <form
        class="controls"
        onSubmit={(event) => {
          event.preventDefault();
          choose(name.trim());
        }}
      >
        <label>
          Topic
          <input required value={name} onInput={({ currentTarget }) => setName(currentTarget.value)} />
        </label>
        <button type="submit" class="primary">
          Open
        </button>
        <button type="button" onClick={askForToken}>
          Enter a token
        </button>
        {children}
      </form>
    </section>
  );
}

function NoTopic({ isKnown, problem }: { isKnown: boolean; problem: Problem | null }) {
  if (problem) {
    return <Unreachable problem={problem} />;
  }
  if (!isKnown) {
    return (
      <section class="empty">
        <h1>Looking for topics</h1>
      </section>
    );
  }
  return (
    <section class="empty">
      <h1>No topic yet</h1>
      <p>The server creates a topic when a client publishes or subscribes to it. Publish an event:</p>
      <pre>{`curl -d '{"hello":"world"}' ${serverUrl("v1/topics/greetings")}`}</pre>
      <p>
        Or start the server with <code>--demo</code>, which publishes sample data.
      </p>
    </section>
  );
}
