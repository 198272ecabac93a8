/** The table of topics. The server searches, sorts and cuts it. */

import { useRef } from "preact/hooks";
import { brief, bytes, counted, duration } from "../format.js";
import { write } from "../live/address.js";
import type { TopicQuery } from "./poll.js";
import { inOrder, type Ranked, type RankedTopic } from "./reading.js";
import { Spark } from "./spark.js";

/** Number of values in a trend. */
const TREND = 30;

interface Column {
  /** The member by which the server sorts. */
  readonly name: string;
  readonly title: string;
  /** Whether the first press sorts the largest first. */
  readonly descends: boolean;
  readonly help?: string;
}

const COLUMNS: readonly Column[] = [
  { name: "topic", title: "Topic", descends: false },
  { name: "kind", title: "Kind", descends: false },
  { name: "events_per_s", title: "Events/s", descends: true },
  { name: "bytes_per_s", title: "Bytes/s", descends: true },
  { name: "subscribers", title: "Subscribers", descends: true },
  { name: "events", title: "Kept", descends: true, help: "Events in memory" },
  { name: "memory_bytes", title: "Memory", descends: true },
  { name: "age_ms", title: "Age", descends: false, help: "Time since the newest event" },
  { name: "gaps", title: "Gaps", descends: true, help: "Times that a subscriber missed events" },
];

interface Props {
  readonly ranked: Ranked;
  readonly query: TopicQuery;
  ask(query: TopicQuery): void;
}

export function TopicsTable({ ranked, query, ask }: Props) {
  const { topics: sent, matching } = ranked;
  const { topics, hold } = useHeld(sent, query);
  const sorted = query.sort.replace(/^-/, "");
  const isDescending = sorted !== query.sort;
  return (
    <>
      <div class="scroll topics" role="region" aria-label="Table of topics" tabIndex={0}>
        <table>
          <thead>
            <tr>
              {COLUMNS.map(({ name, title, descends, help }) => {
                const is = name === sorted;
                const descendsNext = is ? !isDescending : descends;
                return (
                  <th
                    key={name}
                    class={name === "topic" || name === "kind" ? "text" : undefined}
                    aria-sort={is ? (isDescending ? "descending" : "ascending") : undefined}
                  >
                    <button
                      type="button"
                      title={help}
                      onClick={() => ask({ ...query, sort: `${descendsNext ? "-" : ""}${name}` })}
                    >
                      {title}
                    </button>
                  </th>
                );
              })}
            </tr>
          </thead>
          <tbody {...hold}>
            {topics.map((topic) => (
              <Row key={topic.topic} topic={topic} />
            ))}
          </tbody>
        </table>
      </div>
      <p class="note" role="status">
        {said(topics.length, matching, query.search)}
        {ranked.more && " Topics beyond 100,000 of a shard are left out."}
      </p>
    </>
  );
}

/** Keeps the order of the rows while the reader points at one of them or has focused a link: rows must not move away. */
function useHeld(sent: readonly RankedTopic[], query: TopicQuery) {
  const uses = useRef({ isFocused: false, isPointed: false });
  const last = useRef<{ query: TopicQuery; names: readonly string[] }>({ query, names: [] });
  const { isFocused, isPointed } = uses.current;
  const isHeld = (isFocused || isPointed) && last.current.query === query;
  const topics = isHeld ? inOrder(sent, last.current.names) : sent;
  last.current = { query, names: topics.map(({ topic }) => topic) };
  const note = (change: Partial<typeof uses.current>) => (): void => void Object.assign(uses.current, change);
  const hold = {
    onFocusIn: note({ isFocused: true }),
    onFocusOut: note({ isFocused: false }),
    onMouseEnter: note({ isPointed: true }),
    onMouseLeave: note({ isPointed: false }),
  };
  return { topics, hold };
}

function Row({ topic: row }: { topic: RankedTopic }) {
  return (
    <tr>
      <th scope="row">
        <a href={`live${write({ topic: row.topic, view: null, query: null })}`}>{row.topic}</a>
      </th>
      <td class="text">{row.kind ?? "–"}</td>
      <td class="trend">
        <Spark values={row.trend} room={TREND} />
        <span class="rate">{rate(row.events_per_s)}</span>
      </td>
      <td>{row.bytes_per_s === null ? "…" : bytes(row.bytes_per_s)}</td>
      <td>{brief(row.subscribers)}</td>
      <td>{brief(row.events)}</td>
      <td>{bytes(row.memory_bytes)}</td>
      <td>{row.age_ms === null ? "–" : duration(row.age_ms)}</td>
      <td class={row.gaps ? "warn" : undefined}>{brief(row.gaps)}</td>
    </tr>
  );
}

function rate(perS: number | null): string {
  return perS === null ? "…" : brief(perS);
}

function said(shown: number, matching: number, search: string): string {
  const such = search ? ` with “${search}” in their names` : "";
  if (!matching) return search ? `No topic has “${search}” in its name.` : "No topic yet.";
  if (shown === matching) return `${counted(matching, "topic")}${such}.`;
  return `The first ${shown} of ${counted(matching, "topic")}${such}, in this order. Search to find others.`;
}
