/** Live: which topic, and what to do where there is none. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { askForToken, type Problem, problemOf, sentence, serverUrl } from "../server.js";
import { Unreachable } from "../unreachable.js";
import { read, write } from "./address.js";
import type { Way } from "./connection.js";
import { QueryButton } from "./controls.js";
import type { View } from "./defaults.js";
import { type Asked, examples } from "./query.js";
import { QueryBox } from "./query-box.js";
import { PACE_MS, TopicPage } from "./topic.js";
import type { Search } from "./topic-search.js";
import { count, isPassing, NotListed, openingOf, PAGE, topics } from "./topics.js";
import "./live.css";

/** How often the server is asked for its topics. */
const ASK_MS = 5000;

export function LivePage() {
  const address = read(location.search);
  const [topic, setTopic] = useState(address.topic);
  const [view, setView] = useState(address.view);
  const [transport, setTransport] = useState<Way | null>(null);
  const [paceMs, setPaceMs] = useState(PACE_MS);
  /** The part of the list that the menu shows: names that begin with this, and so many. */
  const [prefix, setPrefix] = useState("");
  const [limit, setLimit] = useState(PAGE);
  const { known, total, problem, unlisted } = useTopics(prefix, limit);
  /** What it has opened with: whatever is published later takes nobody away from there. */
  const opened = useRef<string | null>(null);
  opened.current ??= known && known.opening;
  /** Whether the query in the address is still to be answered: nothing else is shown before. */
  const [isAsking, setIsAsking] = useState(address.query !== null);
  const [asked, setAsked] = useState<Asked | null>(null);
  const [isQueryOpen, setIsQueryOpen] = useState(isAsking);
  const current = isAsking ? null : (asked?.topic ?? topic ?? opened.current);

  const go = (topic: string | null, view: View | null, asked: Asked | null): void => {
    history.replaceState(null, "", write({ topic, view, query: asked?.query ?? null }));
    setTopic(topic);
    setView(view);
    setAsked(asked);
  };
  const names = useMemo(
    () => [...new Set([...(current ? [current] : []), ...(known?.names ?? [])])].sort(passingLast),
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
      show={(asked) => {
        setIsAsking(false);
        // The address may name a view, too; what suited something else need not suit this.
        go(null, isAsking ? view : null, asked);
      }}
      fail={() => setIsAsking(false)}
    />
  );
  const rest = (): JSX.Element => {
    if (isAsking) return <h1 class="quiet">Asking for the query</h1>;
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
        query={asked?.query ?? null}
        isQueryOpen={isQueryOpen}
        view={view}
        transport={transport}
        paceMs={paceMs}
        // What suits one topic need not suit another.
        chooseTopic={(topic) => go(topic, null, null)}
        openQuery={setIsQueryOpen}
        chooseView={(view) => go(asked ? null : current, view, asked)}
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

/** By name; those that pass come last. */
function passingLast(one: string, other: string): number {
  const passes = (topic: string): number => Number(isPassing(topic));
  return passes(one) - passes(other) || NAMES.compare(one, other);
}

const NAMES = new Intl.Collator("en", { numeric: true });

/** The part of a server's topics that the menu shows. */
interface Known {
  /** With the one that the page opens with, wherever in the list it is. */
  readonly names: readonly string[];
  /** How many of the list these are. */
  readonly listed: number;
  readonly isMore: boolean;
  readonly opening: string | null;
}

interface Topics {
  readonly known: Known | null;
  /** How many there are in all; `null` where the menu has all of them, or they are being counted. */
  readonly total: Search["total"];
  readonly problem: Problem | null;
  /** Why the server does not list them to the reader. */
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
          // What is as it was is no reason to draw.
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
  // Counting takes several requests: once for each prefix.
  const isMore = known?.isMore ?? false;
  useEffect(() => {
    let isOver = false;
    setTotal(null);
    const take = (all: Search["total"]): void => {
      if (!isOver) setTotal(all);
    };
    // Without an answer there is no total; the list itself says why.
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
      <h1>Which topic?</h1>
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
          Show it
        </button>
        <button type="button" onClick={askForToken}>
          Present a token
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
      <p>A topic exists as soon as somebody publishes to it. Try:</p>
      <pre>{`curl -d '{"hello":"world"}' ${serverUrl("v1/topics/greetings")}`}</pre>
      <p>
        Or start the server with <code>--demo</code>: it has cars to look at.
      </p>
    </section>
  );
}
