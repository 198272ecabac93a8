/** Status and statistics of a topic. */

import type { Gap } from "thalweg";
import { brief, bytes, counted, duration } from "../format.js";
import { reasonOf } from "../lost.js";
import type { AgeBy } from "./age.js";
import type { LiveStatus, Told } from "./connection.js";
import type { Missed, Stats } from "./feed.js";
import type { Savings } from "./savings.js";

const STATES: Record<LiveStatus["state"], string> = {
  idle: "Not connected",
  connecting: "Connecting",
  open: "Live",
  waiting: "Reconnecting",
  closed: "Ended",
};

const AGES: Record<AgeBy, string> = {
  "its own time": "Time since the newest event happened, by its own timestamp",
  "the fastest event": "Delay of the newest event relative to the fastest one: the timestamps come from another clock",
  "its arrival": "Time since the newest event arrived: it has no timestamp",
};

/** Reasons of gaps (docs/reference/messages.md), in words. */
const REASONS: Record<string, string> = {
  slow: "this page was too slow and fell behind the server's history",
  unknown: "the server does not have the newest version",
  trimmed: "the events had left the server's history before this page requested them",
  epoch: "the server lost its history",
  unannounced: "the server gave no reason",
};

interface Props {
  readonly status: LiveStatus;
  readonly stats: Stats;
  /** Bytes saved by patches; `null` unless the topic is a value topic. */
  readonly savings: Savings | null;
  readonly told: Told;
  readonly isPaused: boolean;
}

export function StatsBar({ status, stats, savings, told: { lag, subscribers }, isPaused }: Props) {
  const { age, gaps, missed, isMissedKnown } = stats;
  const figures: [name: string, value: string, title: string][] = [
    ["transport", status.transport ?? "–", "Transport in use. arrow means columns over HTTP streaming"],
    ["events/s", brief(stats.eventsPerS), "Events received per second"],
    ["bytes/s", bytes(stats.bytesPerS), "Bytes received per second"],
    ["lag", lag === null ? "–" : `${brief(lag)}`, "Number of events by which this page is behind the server"],
    ["subscribers", subscribers === null ? "–" : brief(subscribers), "Subscriptions of this server to the topic"],
    ["age", age === null ? "–" : duration(age.ms), age === null ? "No event yet" : AGES[age.by]],
    ...(savings
      ? [
          ["saved", `${Math.floor(savings.share * 100)} %`, "Share of bytes saved by patches"] as [
            string,
            string,
            string,
          ],
        ]
      : []),
    ["gaps", brief(gaps), "Number of times that events were lost"],
    ["missed", `${isMissedKnown ? "" : "over "}${brief(missed)}`, "Number of events that were lost"],
  ];
  return (
    <div class="stats">
      <p class={`state ${status.state}`} role="status">
        <span aria-hidden="true" />
        {STATES[status.state]}
        {isPaused ? ", paused here" : ""}
        {status.reason && status.state !== "open" ? `: ${reasonOf(status.reason)}` : ""}
      </p>
      <dl>
        {figures.map(([name, value, title]) => (
          <div key={name} title={title} class={(name === "gaps" || name === "missed") && gaps > 0 ? "warn" : undefined}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

function missedOf({ missed, reason }: Gap): string {
  if (reason === "unknown") return "the value is unknown";
  return missed === null ? "an unknown number of events" : counted(missed, "event");
}

export function Gaps({ gaps, count }: { gaps: readonly Missed[]; count: number }) {
  if (!count) return null;
  return (
    <details class="gaps">
      <summary>{count === 1 ? "One gap" : `${count.toLocaleString("en")} gaps`}: missed events and reasons</summary>
      <ul>
        {[...gaps].reverse().map(({ atMs, gap }, index) => (
          <li key={count - index}>
            <time dateTime={new Date(atMs).toISOString()}>{new Date(atMs).toTimeString().slice(0, 8)}</time>{" "}
            {missedOf(gap)}: {REASONS[gap.reason] ?? gap.reason}
          </li>
        ))}
      </ul>
      {count > gaps.length && <p class="note">The list shows only the newest {gaps.length}.</p>}
    </details>
  );
}
