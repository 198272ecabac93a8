/** How it goes: the figures over the data. */

import type { Gap } from "thalweg";
import { brief, bytes, counted, duration } from "../format.js";
import { reasonOf } from "../lost.js";
import type { AgeBy } from "./age.js";
import type { LiveStatus } from "./connection.js";
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
  "its own time": "Since the newest event happened, by its own time",
  "the quickest event": "How much later the newest event is than the quickest was: its clock is not this one",
  "when it came": "Since the newest event came: it has no time of its own",
};

/** Why events are missed, as docs/wire.md has it, in words. */
const REASONS: Record<string, string> = {
  slow: "this page fell behind what the server keeps",
  unknown: "the server does not have the newest version",
  trimmed: "they were no longer kept when this page asked",
  epoch: "the server began anew",
  unannounced: "the server did not say why",
};

interface Props {
  readonly status: LiveStatus;
  readonly stats: Stats;
  /** Of a value topic. */
  readonly savings: Savings | null;
  readonly lag: number | null;
  readonly isPaused: boolean;
}

export function StatsBar({ status, stats, savings, lag, isPaused }: Props) {
  const { age, gaps, missed, isMissedKnown } = stats;
  const figures: [name: string, value: string, title: string][] = [
    ["transport", status.transport ?? "–", "The transport in use; arrow: columns over HTTP streaming"],
    ["events/s", brief(stats.eventsPerS), "Events received a second"],
    ["bytes/s", bytes(stats.bytesPerS), "Bytes received a second"],
    ["lag", lag === null ? "–" : `${brief(lag)}`, "Events between this page and the newest one on the server"],
    ["age", age === null ? "–" : duration(age.ms), age === null ? "There is no event yet" : AGES[age.by]],
    ...(savings
      ? [["saved", `${Math.floor(savings.share * 100)} %`, "Bytes that patches have saved"] as [string, string, string]]
      : []),
    ["gaps", brief(gaps), "How often the server said that events are left out"],
    ["missed", `${isMissedKnown ? "" : "over "}${brief(missed)}`, "Events that were left out"],
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

/** What was missed, the newest first. */
export function Gaps({ gaps, count }: { gaps: readonly Missed[]; count: number }) {
  if (!count) return null;
  return (
    <details class="gaps">
      <summary>{count === 1 ? "One gap" : `${count.toLocaleString("en")} gaps`}: what was missed, and why</summary>
      <ul>
        {[...gaps].reverse().map(({ atMs, gap }, index) => (
          <li key={count - index}>
            <time dateTime={new Date(atMs).toISOString()}>{new Date(atMs).toTimeString().slice(0, 8)}</time>{" "}
            {missedOf(gap)}: {REASONS[gap.reason] ?? gap.reason}
          </li>
        ))}
      </ul>
      {count > gaps.length && <p class="note">Only the newest {gaps.length} are listed.</p>}
    </details>
  );
}
