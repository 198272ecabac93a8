/** The overview of a server, for readers who may inspect it. */

import { useEffect, useRef, useState } from "preact/hooks";
import { counted, duration } from "../format.js";
import { LostNotice, useLost } from "../lost.js";
import type { Problem } from "../server.js";
import { Unreachable } from "../unreachable.js";
import { Limits, Parts, Queries, Reasons, Shards, Tiles, Transports } from "./panels.js";
import { Poll, type PollStatus, type TopicQuery } from "./poll.js";
import { Readings } from "./reading.js";
import { TopicsTable } from "./topics-table.js";
import { Trace } from "./trace.js";
import "./overview.css";

/** Number of rows on the page. */
const ROWS_MAX = 100;
/** Pause in typing after which the search starts, ms. */
const TYPED_MS = 250;

const FIRST: TopicQuery = { search: "", sort: "-events_per_s", limit: ROWS_MAX };

/** @param refused - called if the reader may not inspect the server. */
export function OverviewPage({ refused }: { refused(): void }) {
  const [query, setQuery] = useState(FIRST);
  const { poll, readings, status, problem } = usePoll(query, refused);
  const isLost = useLost(status);
  if (!readings) {
    if (problem) return <Unreachable problem={problem} />;
    return (
      <section class="empty">
        <h1>Reading the server’s figures</h1>
      </section>
    );
  }
  const { metrics, ranked } = readings.now;
  const build = metrics.samples("build_info")[0]?.labels["version"] ?? "";
  const upMs = readings.now.atMs - metrics.sum("process_start_time_seconds") * 1000;
  return (
    <section class={isLost ? "overview stale" : "overview"}>
      {isLost && <LostNotice status={status} hasData reconnect={() => poll.current?.now()} />}
      <div class="head">
        <h1>Overview</h1>
        <p class="about">
          <span class={isLost ? "state" : "state open"} aria-hidden="true" />
          <span>
            {isLost ? "Not live" : "Live"}. <span title={build}>Thalweg {build.split(",")[0]}</span>, started{" "}
            {duration(Math.max(0, upMs))} ago
          </span>
        </p>
      </div>
      <Tiles readings={readings} />
      <section class="panel all">
        <div class="find">
          <h2>{counted(ranked.all.topics, "topic")}</h2>
          <Find search={query.search} find={(search) => setQuery((last) => ({ ...last, search }))} />
        </div>
        <TopicsTable ranked={ranked} query={query} ask={setQuery} />
      </section>
      <Trace />
      <div class="panels">
        <Transports readings={readings} />
        <Limits readings={readings} />
        <Shards readings={readings} />
        <Reasons readings={readings} name="refused_total" title="Refusals" />
        <Reasons readings={readings} name="closed_total" title="Closed connections" />
        <Queries readings={readings} />
        <Parts readings={readings} />
      </div>
    </section>
  );
}

function Find({ search, find }: { search: string; find(search: string): void }) {
  const [text, setText] = useState(search);
  useEffect(() => {
    if (text.trim() === search) return undefined;
    const timer = setTimeout(() => find(text.trim()), TYPED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <label class="find-label">
      <span class="quiet">Find topics</span>
      <input
        type="search"
        placeholder="Find topics by a part of their names"
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
      />
    </label>
  );
}

function usePoll(query: TopicQuery, refused: () => void) {
  const [readings, setReadings] = useState<Readings | null>(null);
  const [status, setStatus] = useState<PollStatus>({ state: "connecting", reason: null });
  const [problem, setProblem] = useState<Problem | null>(null);
  const poll = useRef<Poll | null>(null);
  useEffect(() => {
    const own = new Poll(query, {
      took: (all) => setReadings(new Readings(all)),
      changed: (status, problem) => {
        // The same status must not cause a render.
        setStatus((before) => (before.state === "open" && status.state === "open" ? before : status));
        setProblem(problem);
      },
      refused,
    });
    poll.current = own;
    return () => own.close();
  }, []);
  const first = useRef(query);
  useEffect(() => {
    if (first.current !== query) poll.current?.ask(query);
    first.current = query;
  }, [query]);
  return { poll, readings, status, problem };
}
