/** One live topic: document, table, chart or map. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { counted } from "../format.js";
import { LostNotice, useLost } from "../lost.js";
import { type Problem, serverUrl } from "../server.js";
import { Unreachable } from "../unreachable.js";
import { Chart } from "./chart.js";
import { Live, type LiveTransport, type Told, UNKNOWN } from "./connection.js";
import { ChartControls, Controls, TableControls } from "./controls.js";
import { coordinates, firstAggregate, firstSeries, firstView, type View } from "./defaults.js";
import type { Version } from "./document.js";
import { DocumentView } from "./document-view.js";
import { IncrementalFilter } from "./incremental-filter.js";
import { Inspection } from "./inspection.js";
import { KeyedFilter } from "./keyed-filter.js";
import { Manage } from "./manage.js";
import { PositionMap } from "./map.js";
import { isKeyed, type Row, type Rows } from "./rows.js";
import type { Aggregate } from "./series.js";
import { Gaps, StatsBar } from "./stats.js";
import { Table } from "./table.js";
import { ticker } from "./ticker.js";
import type { Search } from "./topic-search.js";
import { CARS } from "./topics.js";
import { Unknown } from "./unknown.js";
import { filter, type Sorting } from "./view.js";

/** Default time between two updates of the page, ms. */
export const PACE_MS = 200;
const WINDOW_S = 60;
/** Time between two requests for the server's figures, ms. */
const ASK_MS = 1000;
/** Time that one step of filtering and sorting takes, and the pause after it, ms. */
const FILTER_MS = 8;
/** Number of rows from which the suggested view is final. */
const ENOUGH = 50;

interface Paused {
  readonly rows: Rows;
  readonly version: Version | null;
  readonly atMs: number;
  readonly count: number;
}

interface Props {
  readonly topic: string;
  readonly topics: readonly string[];
  readonly search: Search;
  /** The query whose rows the topic has. */
  readonly query: string | null;
  readonly isQueryOpen: boolean;
  readonly problem: Problem | null;
  /** The view in the address; `null` for the suggested view. */
  readonly view: View | null;
  readonly transport: LiveTransport | null;
  readonly paceMs: number;
  chooseTopic(topic: string): void;
  openQuery(isOpen: boolean): void;
  chooseView(view: View): void;
  chooseTransport(transport: LiveTransport | null): void;
  choosePace(paceMs: number): void;
}

export function TopicPage(props: Props) {
  const { topic, topics, search, query, isQueryOpen, problem, view: chosenView, transport, paceMs, ...choose } = props;
  const live = useLive(topic, transport, query);
  const { feed } = live;
  const now = useTicker(paceMs);
  const isLost = useLost(live.status) && live.failure === null;
  const told = useTold(live);
  const [isManaged, setIsManaged] = useState(false);
  const [paused, setPaused] = useState<Paused | null>(null);
  /** The inspected row. */
  const [opened, setOpened] = useState<Row | null>(null);
  const [follows, setFollows] = useState(true);
  const [words, setWords] = useState("");
  const [sorting, setSorting] = useState<Sorting | null>(null);
  const [picked, setPicked] = useState<readonly string[] | null>(null);
  const [windowS, setWindowS] = useState(WINDOW_S);
  const [chosenAggregate, setAggregate] = useState<Aggregate | null>(null);

  const { failure } = live;
  const columns = feed.columns.all;
  const held = paused?.rows ?? feed.rows;
  const hasKeys = isKeyed(held);
  const suggested = useSuggestion(held, () => (hasKeys ? "table" : firstView(held, columns)), columns);
  const version = paused ? paused.version : feed.version;
  const isChosen = chosenView !== null && (chosenView !== "document" || version !== null);
  const view = isChosen ? chosenView : version ? "document" : (suggested ?? "table");
  const rows = useFiltered(held, view === "table" ? words : "", columns, sorting);
  // The newest row of a keyed topic may be anywhere.
  const canFollow = !sorting && !paused && !hasKeys;
  const stats = feed.stats(now);

  const pause = (): void => {
    setOpened(null);
    setPaused(paused ? null : { rows: feed.rows.snapshot(), version: feed.version, atMs: now, count: feed.rows.count });
  };

  const places = useSuggestion(held, () => coordinates(held, columns), columns, 1);
  const suggestedSeries = useSuggestion(held, () => firstSeries(held, columns), columns);
  const drawn = picked ?? suggestedSeries ?? [];
  const drawnColumns = useMemo(() => columns.filter(({ name }) => drawn.includes(name)), [columns, drawn.join("\n")]);
  const aggregate = chosenAggregate ?? firstAggregate(columns);
  const series = feed.chart(view === "chart" ? drawnColumns : [], windowS * 1000, aggregate);
  const tick = paused?.atMs ?? now;

  return (
    <section>
      <h1 class="quiet">Live data of {query ?? topic}</h1>
      <Controls
        topic={topic}
        topics={topics}
        search={search}
        isQuery={query !== null}
        isQueryOpen={isQueryOpen}
        isManaged={isManaged}
        manage={setIsManaged}
        transport={transport}
        view={view}
        hasDocument={version !== null}
        paceMs={paceMs}
        isPaused={paused !== null}
        {...choose}
        pause={pause}
      >
        {view === "table" && (
          <TableControls
            words={words}
            follows={canFollow && follows}
            canFollow={canFollow}
            filter={setWords}
            follow={setFollows}
          />
        )}
        {view === "chart" && (
          <ChartControls
            columns={columns.filter(({ kind }) => kind === "number")}
            drawn={drawn}
            windowS={windowS}
            aggregate={aggregate}
            draw={setPicked}
            chooseWindow={setWindowS}
            chooseAggregate={setAggregate}
          />
        )}
      </Controls>
      {isManaged && <Manage topic={topic} isQuery={query !== null} />}
      {isLost && <LostNotice status={live.status} hasData={feed.rows.count > 0} reconnect={() => live.reconnect()} />}
      <StatsBar
        status={failure === null ? live.status : { ...live.status, state: "closed" }}
        stats={stats}
        savings={version && feed.savings}
        told={told}
        isPaused={paused !== null}
      />
      <Gaps gaps={feed.gaps} count={stats.gaps} />
      {failure !== null ? (
        <Ended reason={failure} />
      ) : (
        feed.rows.count === 0 &&
        (problem && !isLost ? (
          <Unreachable problem={problem} isAll={false} />
        ) : (
          <Waiting topic={topic} isQuery={query !== null} />
        ))
      )}
      <Unknown sinceMs={feed.unknownSinceMs} hasVersion={version !== null} />
      {version && view === "document" && (
        <DocumentView version={version} savings={feed.savings} isUnknown={feed.unknownSinceMs !== null} />
      )}
      {feed.rows.count > 0 && view === "table" && (
        <>
          <Table
            rows={rows}
            columns={columns}
            sorting={sorting}
            hasKeys={hasKeys}
            follows={canFollow && follows}
            onSort={setSorting}
            onFollow={setFollows}
            opened={opened?.offset ?? null}
            onOpen={paused && ((row) => setOpened(row.offset === opened?.offset ? null : row))}
          />
          <p class="note">{summary(rows, held, paused && feed.rows.count - paused.count)}</p>
          {topic === CARS && (
            <p class="note">
              As in the published example, all times are in 2022, <code>taken_in</code> equals <code>time</code>, and{" "}
              <code>never</code> is not set: it is always 1970.
            </p>
          )}
          {opened && <Inspection row={opened} close={() => setOpened(null)} />}
        </>
      )}
      {feed.rows.count > 0 && view === "chart" && (
        <Chart columns={drawnColumns} series={series} aggregate={aggregate} windowMs={windowS * 1000} tick={tick} />
      )}
      {feed.rows.count > 0 && view === "map" && <PositionMap rows={held} at={places} tick={tick} />}
    </section>
  );
}

function summary(rows: Rows, held: Rows, since: number | null): string {
  const figure = (value: number): string => value.toLocaleString("en");
  const [row, place] = isKeyed(held) ? ["key", "a key"] : ["row", "an offset"];
  const shown = `${rows === held ? "" : `${figure(rows.length)} of `}${counted(held.length, row)}`;
  const paused =
    since === null ? "" : `. Paused: select ${place} to see the full event; ${figure(since)} more received since`;
  if (isKeyed(held)) return `${shown} in memory${paused}.`;
  return `${shown} in memory, the newest ${held.length === 1 ? "one" : "ones"}${paused}.`;
}

function Waiting({ topic, isQuery }: { topic: string; isQuery: boolean }) {
  if (isQuery) {
    return (
      <div class="empty">
        <h2>Waiting for the first row of the query</h2>
        <p>
          A row appears here as soon as the query produces one. A query with windows produces rows at the end of each
          window.
        </p>
      </div>
    );
  }
  return (
    <div class="empty">
      <h2>Waiting for the first event of {topic}</h2>
      <p>The first event appears here as soon as it is published:</p>
      <pre>{`curl -d '{"hello":"world"}' ${serverUrl(`v1/topics/${topic}`)}`}</pre>
    </div>
  );
}

function Ended({ reason }: { reason: string }) {
  return (
    <div class="empty" role="alert">
      <h2>The subscription has ended</h2>
      <p>{reason}.</p>
      <button type="button" class="primary" onClick={() => location.reload()}>
        Reconnect
      </button>
    </div>
  );
}

/** Receives a topic while the component is mounted. */
function useLive(topic: string, transport: LiveTransport | null, query: string | null): Live {
  const live = useMemo(() => new Live(topic, transport, query), [topic]);
  const used = useRef(transport);
  useEffect(() => {
    if (used.current !== transport) live.use(transport);
    used.current = transport;
  }, [live, transport]);
  useEffect(() => () => live.close(), [live]);
  const title = query?.trim().replace(/\s+/g, " ") ?? topic;
  useEffect(() => void (document.title = `${title} · Live · Thalweg`), [title]);
  return live;
}

/** Returns the time of the last tick. Each tick causes a render. */
function useTicker(paceMs: number): number {
  const [now, setNow] = useState(Date.now());
  const pace = useRef(paceMs);
  pace.current = paceMs;
  useEffect(() => ticker(() => pace.current, setNow), []);
  return now;
}

/** Returns the last known figures. New values do not cause a render. */
function useTold(live: Live): Told {
  const last = useRef(UNKNOWN);
  useEffect(() => {
    let isOver = false;
    let timer: ReturnType<typeof setTimeout>;
    const ask = async (): Promise<void> => {
      const told = await live.told().catch(() => UNKNOWN);
      // The component may be unmounted, or show another topic.
      if (isOver) return;
      last.current = told;
      timer = setTimeout(() => void ask(), ASK_MS);
    };
    timer = setTimeout(() => void ask(), ASK_MS / 4);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [live]);
  return last.current;
}

/** Returns a suggestion derived from at least `least` rows. It is final with `ENOUGH` rows, until the columns change. */
function useSuggestion<T>(rows: Rows, find: () => T, columns: unknown, least = 2): T | null {
  const last = useRef<{ columns: unknown; isSure: boolean; found: T } | null>(null);
  if (rows.length < least) return null;
  if (!last.current?.isSure || last.current.columns !== columns) {
    last.current = { columns, isSure: rows.length >= ENOUGH, found: find() };
  }
  return last.current.found;
}

/** Returns the rows that match the filter, in the selected order. Works in small steps. */
function useFiltered(rows: Rows, words: string, columns: Parameters<typeof filter>[1], sorting: Sorting | null): Rows {
  const filtered = useMemo(() => {
    const test = filter(words, columns);
    if (!test && !sorting) return null;
    if (isKeyed(rows)) return new KeyedFilter(rows, test, sorting, columns);
    return new IncrementalFilter(rows, test, sorting, columns);
  }, [rows, words, columns, sorting]);
  /** The filter whose steps are scheduled. */
  const pumped = useRef<IncrementalFilter | KeyedFilter | null>(null);
  // Runs after each render, because new rows may have arrived.
  useEffect(() => {
    if (pumped.current === filtered) return;
    pumped.current = filtered;
    const step = (): void => {
      if (!filtered || pumped.current !== filtered) return;
      if (filtered.step(() => performance.now(), FILTER_MS)) pumped.current = null;
      else setTimeout(step, FILTER_MS);
    };
    step();
  });
  return filtered ?? rows;
}
