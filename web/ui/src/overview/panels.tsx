/** The panels of the overview: one subject each. */

import type { ComponentChildren } from "preact";
import { brief, bytes, counted, duration } from "../format.js";
import { write } from "../live/address.js";
import type { Readings } from "./reading.js";
import { Bar, Spark } from "./spark.js";

/** Number of rates in a trend: one for each second of the last minute. */
const TREND = 60;

interface PanelProps {
  readonly title: string;
  readonly note?: string | undefined;
  readonly children: ComponentChildren;
}

function Panel({ title, note, children }: PanelProps) {
  return (
    <section class="panel">
      <h2>{title}</h2>
      {children}
      {note && <p class="note">{note}</p>}
    </section>
  );
}

interface TileProps {
  readonly name: string;
  readonly value: string;
  readonly unit?: string;
  readonly more: string;
  readonly trend?: readonly number[];
}

function Tile({ name, value, unit, more, trend }: TileProps) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <b>{value}</b>
        {unit && value !== "…" && <span class="unit">{unit}</span>}
        <span class="more">{more}</span>
        {trend && <Spark values={trend} room={TREND} />}
      </dd>
    </div>
  );
}

/** The figures that tell at a glance whether the server is well. */
export function Tiles({ readings }: { readings: Readings }) {
  const { all, now } = readings;
  const { metrics, ranked } = now;
  const of = (limit: string): string => `of ${brief(ranked.limits[limit] ?? Number.NaN)}`;
  const [p50, p99] = [0.5, 0.99].map((share) => readings.latencyMs("delivery_seconds", share));
  const loop = readings.latencyMs("loop_delay_seconds", 0.99);
  const blocked = metrics.sum("blocked_connections");
  const cpu = readings.perS("process_cpu_seconds_total");
  const resident = metrics.sum("process_resident_memory_bytes");
  const trendOf = (of: (index: number) => number | null): number[] => all.map((_, index) => of(index) ?? 0).slice(1);
  const allOf = (index: number) => all[index]?.ranked.all;
  return (
    <dl class="tiles">
      <Tile
        name="Connections"
        value={brief(metrics.sum("connections"))}
        more={`${of("connections")}${blocked ? `, ${brief(blocked)} with a full socket` : ""}`}
        trend={all.map((reading) => reading.metrics.sum("connections"))}
      />
      <Tile
        name="Subscriptions"
        value={brief(ranked.all.subscribers)}
        more={`to ${brief(ranked.all.topics)} topics`}
        trend={all.map((reading) => reading.ranked.all.subscribers)}
      />
      <Tile
        name="Events in"
        value={rate(ranked.all.events_per_s)}
        unit="/s"
        more={`${size(ranked.all.bytes_per_s)}/s`}
        trend={trendOf((index) => allOf(index)?.events_per_s ?? null)}
      />
      <Tile
        name="Events due"
        value={rate(ranked.all.due_events_per_s)}
        unit="/s"
        more={`${size(readings.perS("sent_bytes_total"))}/s sent`}
        trend={readings.rates("sent_bytes_total")}
      />
      <Tile
        name="Publish to send, p99"
        value={p99 == null ? "–" : latency(p99)}
        more={p50 == null ? "nothing was sent lately" : `p50 ${latency(p50)}, over 10 s`}
        trend={readings.latencies("delivery_seconds", 0.99)}
      />
      <Tile
        name="Loop delay, p99"
        value={loop === null ? "…" : latency(loop)}
        more={`over 10 s, of ${counted(metrics.values("connections", "shard").length, "shard")}`}
        trend={readings.latencies("loop_delay_seconds", 0.99)}
      />
      <Tile
        name="CPU"
        value={cpu === null ? "…" : `${Math.round(cpu * 100)}`}
        unit=" % of a core"
        more={`${brief(metrics.sum("process_threads"))} threads`}
        trend={readings.rates("process_cpu_seconds_total")}
      />
      <Tile
        name="Memory"
        value={bytes(resident)}
        more="resident"
        trend={all.map((reading) => reading.metrics.sum("process_resident_memory_bytes"))}
      />
    </dl>
  );
}

const TRANSPORTS: Readonly<Record<string, string>> = {
  websocket: "WebSocket",
  sse: "Server-Sent Events",
  "http-streaming": "HTTP streaming",
  "forever-frame": "Forever frame",
  "long-polling": "Long polling",
  arrow: "Arrow columns",
};

export function Transports({ readings }: { readings: Readings }) {
  const { metrics } = readings.now;
  const all = metrics.sum("transport_connections");
  return (
    <Panel title="Connections by transport">
      <table class="facts">
        <tbody>
          {metrics.values("transport_connections", "transport").map((transport) => {
            const count = metrics.sum("transport_connections", { transport });
            return (
              <tr key={transport}>
                <th scope="row">{TRANSPORTS[transport] ?? transport}</th>
                <td>{brief(count)}</td>
                <td class="wide">
                  <Bar share={all ? count / all : 0} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Panel>
  );
}

/** A limit, with the metric that must stay below it. */
const LIMITED: readonly (readonly [metric: string, name: string, text: (value: number) => string])[] = [
  ["history_bytes", "Histories", bytes],
  ["answer_bytes", "Unread answers", bytes],
  ["pinned_bytes", "Partly sent frames", bytes],
  ["body_bytes", "Request bodies", bytes],
  ["unfinished_bytes", "Unfinished messages", bytes],
  ["unstored_bytes", "Events to store", bytes],
  // A topic counts once, although other shards may have copies.
  ["pattern_topics", "Topics", brief],
  ["subscribed_topics", "Topics without events", brief],
  ["queries", "Queries", brief],
];

export function Limits({ readings }: { readings: Readings }) {
  const { metrics, ranked } = readings.now;
  const shared = metrics.sum("tail_bytes");
  return (
    <Panel
      title="Memory and limits"
      note={`Frames that subscribers share take ${bytes(shared)} more; their topics’ histories limit them.`}
    >
      <table class="facts">
        <tbody>
          {LIMITED.map(([metric, name, text]) => {
            const [value, limit] = [metrics.sum(metric), ranked.limits[metric] ?? Number.NaN];
            return (
              <tr key={metric}>
                <th scope="row">{name}</th>
                <td>
                  {text(value)} <span class="soft">of {text(limit)}</span>
                </td>
                <td class="wide">
                  <Bar share={limit ? value / limit : 0} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Panel>
  );
}

/** The reasons of close codes (docs/reference/errors.md, "Close"). */
const CLOSES: Readonly<Record<string, string>> = {
  1000: "closed by the client",
  1001: "draining",
  1002: "protocol error",
  1003: "binary not accepted",
  1007: "not UTF-8",
  1008: "too slow",
  1009: "too big",
  1013: "busy",
  4002: "stalled",
  4003: "reload",
  4004: "expired",
  4005: "restarted",
  4006: "cut off",
  4007: "silent",
  4500: "ended",
  4501: "disconnected",
};

/** The reasons of a counter, with their numbers. */
export function Reasons({ readings, name, title }: { readings: Readings; name: string; title: string }) {
  const codes = readings.codes(name);
  return (
    <Panel title={title}>
      {codes.length ? (
        <table class="facts">
          <thead>
            <tr>
              <th class="text">Code</th>
              <th>Last minute</th>
              <th>Since the start</th>
            </tr>
          </thead>
          <tbody>
            {codes.map(({ code, recent, total }) => (
              <tr key={code}>
                <th scope="row">
                  <code>{code}</code> {CLOSES[code]}
                </th>
                <td class={recent ? "warn" : undefined}>{brief(recent)}</td>
                <td>{brief(total)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p class="none">None since the start.</p>
      )}
    </Panel>
  );
}

export function Shards({ readings }: { readings: Readings }) {
  const { metrics } = readings.now;
  return (
    <Panel title="Shards">
      <table class="facts">
        <thead>
          <tr>
            <th class="text">Shard</th>
            <th>Connections</th>
            <th>Topics</th>
            <th>Sends/s</th>
            <th>Loop delay, p99</th>
          </tr>
        </thead>
        <tbody>
          {metrics.values("connections", "shard").map((shard) => {
            const delay = readings.latencyMs("loop_delay_seconds", 0.99, shard);
            return (
              <tr key={shard}>
                <th scope="row">{shard}</th>
                <td>{brief(metrics.sum("connections", { shard }))}</td>
                <td>{brief(metrics.sum("topics", { shard }))}</td>
                <td>{rate(readings.perS("sends_total", { shard }))}</td>
                <td>{delay === null ? "…" : latency(delay)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Panel>
  );
}

export function Queries({ readings }: { readings: Readings }) {
  const { metrics } = readings.now;
  const running = metrics.values("query_memory_bytes", "query").map((query) => ({
    query,
    share: readings.perS("query_cost_seconds_total", { query }),
    memory: metrics.sum("query_memory_bytes", { query }),
  }));
  running.sort((one, other) => (other.share ?? 0) - (one.share ?? 0));
  const failed = metrics.sum("queries_failed");
  return (
    <Panel title="Queries" note={failed ? `${brief(failed)} cannot process their events: see the log.` : undefined}>
      {running.length ? (
        <table class="facts">
          <thead>
            <tr>
              <th class="text">Topic of its rows</th>
              <th>CPU</th>
              <th>Memory</th>
            </tr>
          </thead>
          <tbody>
            {running.slice(0, QUERIES_MAX).map(({ query, share, memory }) => (
              <tr key={query}>
                <th scope="row">
                  <a href={`live${write({ topic: query, view: null, query: null })}`}>{query}</a>
                </th>
                <td>{share === null ? "…" : `${(share * 100).toFixed(1)} %`}</td>
                <td>{bytes(memory)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p class="none">No query runs.</p>
      )}
    </Panel>
  );
}

const QUERIES_MAX = 10;

/** Figures of parts that not every server uses. A part that is not in use has no row. */
export function Parts({ readings }: { readings: Readings }) {
  const { metrics } = readings.now;
  const one = (name: string): string => brief(metrics.sum(name));
  const lately = (name: string): string => brief(Math.round(readings.recent(name, {})));
  const has = (name: string): boolean => metrics.samples(name).length > 0;
  const rows: [name: string, is: boolean, value: string][] = [
    ["Sources", metrics.sum("source_ticks_total") > 0, `${rate(readings.perS("source_ticks_total"))} ticks/s`],
    [
      "Fetched topics",
      has("upstream_topics"),
      `${one("upstream_topics")}, ${one("upstream_in_flight")} fetches in flight, ${one("upstream_waiting")} waiting, ${lately("upstream_errors_total")} failed in the last minute`,
    ],
    [
      "Presence",
      metrics.sum("members") + metrics.sum("members_refused_total") > 0,
      `${one("members")} members, ${one("members_refused_total")} not listed`,
    ],
    ["Keys", metrics.sum("keys") > 0, `${one("keys")} keys, ${bytes(metrics.sum("keyed_bytes"))}`],
    [
      "Data directory",
      has("disk_bytes"),
      `${bytes(metrics.sum("disk_bytes"))}, ${size(readings.perS("disk_written_bytes_total"))}/s written, ${one("disk_failures_total")} failures`,
    ],
    [
      "Broker",
      metrics.sum("stores_in_flight") > 0 || has("disk_bytes") || has("nats_lag"),
      `${one("stores_in_flight")} publishes in flight, ${one("nats_lag")} messages not read yet, ${rate(readings.perS("cold_reads_total"))} backfills/s`,
    ],
  ];
  const used = rows.filter(([, is]) => is);
  return (
    <Panel title="Sources, fetches, presence and brokers">
      {used.length ? (
        <table class="facts">
          <tbody>
            {used.map(([name, , value]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td class="text">{value}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p class="none">This server uses none of them.</p>
      )}
    </Panel>
  );
}

function rate(perS: number | null): string {
  return perS === null ? "…" : brief(perS < 10 ? Math.round(perS * 10) / 10 : Math.round(perS));
}

function size(perS: number | null): string {
  return perS === null ? "…" : bytes(Math.round(perS));
}

/** Returns a latency, which may be less than a millisecond. */
function latency(ms: number): string {
  return ms < 10 ? `${Number(ms.toPrecision(2))} ms` : duration(ms);
}
