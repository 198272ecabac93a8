/** Live: which topic, and what to do where there is none. */

import { useEffect, useRef, useState } from "preact/hooks";
import { askForToken, type Problem, problemOf, sentence, serverUrl } from "../server.js";
import { Unreachable } from "../unreachable.js";
import { read, write } from "./address.js";
import type { Way } from "./connection.js";
import type { View } from "./defaults.js";
import { PACE_MS, TopicPage } from "./topic.js";
import { NotListed, opening, topics } from "./topics.js";
import "./live.css";

/** How often the server is asked for its topics. */
const ASK_MS = 5000;

export function LivePage() {
  const address = read(location.search);
  const [topic, setTopic] = useState(address.topic);
  const [view, setView] = useState(address.view);
  const [transport, setTransport] = useState<Way | null>(null);
  const [paceMs, setPaceMs] = useState(PACE_MS);
  const { known, problem, unlisted } = useTopics();
  /** What it has opened with: whatever is published later takes nobody away from there. */
  const opened = useRef<string | null>(null);
  opened.current ??= known && known.opening;
  const current = topic ?? opened.current;

  const go = (topic: string | null, view: View | null): void => {
    history.replaceState(null, "", write({ topic, view }));
    setTopic(topic);
    setView(view);
  };
  if (!current && unlisted) return <Unlisted why={unlisted} choose={(topic) => go(topic, null)} />;
  if (!current) return <NoTopic isKnown={known !== null} problem={problem} />;
  return (
    <TopicPage
      key={current}
      topic={current}
      problem={problem}
      topics={[...new Set([current, ...(known?.names ?? [])])].sort(labLast)}
      view={view}
      transport={transport}
      paceMs={paceMs}
      // What suits one topic need not suit another.
      chooseTopic={(topic) => go(topic, null)}
      chooseView={(view) => go(current, view)}
      chooseTransport={setTransport}
      choosePace={setPaceMs}
    />
  );
}

/** By name; the lab's own come last. */
function labLast(one: string, other: string): number {
  const isLab = (topic: string): number => Number(topic.startsWith("lab/"));
  return isLab(one) - isLab(other) || one.localeCompare(other, "en", { numeric: true });
}

/** What is known of a server's topics. */
interface Known {
  readonly names: readonly string[];
  readonly opening: string | null;
}

interface Topics {
  readonly known: Known | null;
  readonly problem: Problem | null;
  /** Why the server does not list them to who is here. */
  readonly unlisted: string | null;
}

function useTopics(): Topics {
  const [known, setKnown] = useState<Known | null>(null);
  const [unlisted, setUnlisted] = useState<string | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    const ask = (): void => {
      topics().then(
        (all) => {
          const now = { names: all.map(({ topic }) => topic), opening: opening(all) };
          // What is as it was is no reason to draw.
          setKnown((before) => (JSON.stringify(before) === JSON.stringify(now) ? before : now));
          setProblem(null);
        },
        (error: unknown) => {
          const isRefused = error instanceof NotListed;
          setUnlisted(isRefused ? sentence(error) : null);
          setProblem(isRefused ? null : problemOf(error));
        },
      );
    };
    ask();
    const timer = setInterval(ask, ASK_MS);
    return () => clearInterval(timer);
  }, []);
  return { known, problem, unlisted };
}

function Unlisted({ why, choose }: { why: string; choose(topic: string): void }) {
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
