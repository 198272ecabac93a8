/** A chart of columns over time: the mean of each time slice with its range, or the maximum or minimum of each second. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { type Colours, colours, useIsDark } from "../colours.js";
import { brief, duration, scale } from "../format.js";
import type { Column } from "./columns.js";
import { type Aggregate, align, type Series } from "./series.js";

interface Props {
  readonly columns: readonly Column[];
  readonly series: readonly Series[];
  readonly aggregate: Aggregate;
  readonly windowMs: number;
  /** Changes when the chart has new data to draw. */
  readonly tick: number;
}

const height = (width: number): number => Math.max(240, Math.min(480, width * 0.45));
/** Opacity of a range, in hex. */
const SPAN = "30";

export function Chart({ columns, series, aggregate, windowMs, tick }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  /** Index of the point under the pointer. */
  const [at, setAt] = useState<number | null>(null);
  const isDark = useIsDark();
  const hasRange = aggregate === "mean";
  const names = columns.map(({ name }) => (hasRange ? name : `${aggregate}(${name})`));
  const key = names.join("\n");

  useEffect(() => {
    const host = place.current;
    if (!host || !names.length) return;
    const width = host.clientWidth;
    const options = settings(names, colours(host), windowMs, setAt);
    plot.current = new uPlot({ ...options, width, height: height(width) }, undefined, host);
    const resize = new ResizeObserver(() => {
      plot.current?.setSize({ width: host.clientWidth, height: height(host.clientWidth) });
    });
    resize.observe(host);
    return () => {
      resize.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [key, windowMs, isDark]);

  const aligned = useMemo(() => align(series, !hasRange), [tick, key, windowMs]);
  const { at: times, least, most } = aligned;
  const lines = { mean: aligned.mean, max: most, min: least }[aggregate];
  useLayoutEffect(() => {
    const none: undefined[] = new Array(times.length).fill(undefined);
    const drawn = lines.flatMap((line, index) =>
      hasRange ? [least[index] ?? none, most[index] ?? none, line] : [none, none, line],
    );
    plot.current?.setData([times, ...drawn]);
  }, [tick, key, windowMs, isDark]);

  if (!names.length) {
    return <p class="empty">No data to draw: no column is selected, or this topic has no column of numbers yet.</p>;
  }
  const index = at !== null && at < times.length ? at : times.length - 1;
  return (
    <figure class="chart">
      <figcaption>
        <span class="when">{times.length ? clock(times[index] as number) : "–"}</span>
        <ul class="legend">
          {names.map((name, line) => (
            <li key={name}>
              <svg class={`swatch c${line % 6}`} viewBox="0 0 24 8" aria-hidden="true">
                <path d="M0 4h24" stroke-dasharray={line >= 6 ? "6 4" : undefined} />
              </svg>
              {name}
              <b>{figure(lines[line]?.[index])}</b>
              {hasRange && <span class="range">{span(least[line]?.[index], most[line]?.[index])}</span>}
            </li>
          ))}
        </ul>
      </figcaption>
      <div
        ref={place}
        role="img"
        aria-label={`Chart of ${names.join(", ")}${hasRange ? "" : " of each second"}, the last ${duration(windowMs)}`}
      />
    </figure>
  );
}

function settings(
  names: readonly string[],
  { axis, grid, series, ink }: Colours,
  windowMs: number,
  pointed: (at: number | null) => void,
): Omit<uPlot.Options, "width" | "height"> {
  const font = "12px system-ui, sans-serif";
  const line: uPlot.Axis = { stroke: axis, font, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
  const colour = (index: number): string => series[index % series.length] as string;
  return {
    legend: { show: false },
    // Half the width of a time label: the last label may stand at the edge.
    padding: [null, 28, null, null],
    cursor: { drag: { x: false, y: false }, points: { show: false }, y: false },
    hooks: { setCursor: [(plot) => pointed(plot.cursor.idx ?? null)] },
    scales: {
      x: {
        // The whole window, with the newest value at the right edge.
        range: (_plot, _least, most) => [(most ?? Date.now() / 1000) - windowMs / 1000, most ?? Date.now() / 1000],
      },
    },
    axes: [
      { ...line, size: 34, values: (_plot, splits) => splits.map((at) => clock(at)), space: 90 },
      {
        ...line,
        size: (_plot, texts) => room(texts),
        values: (_plot, splits, _axis, _space, step) => splits.map((at) => scale(at, step)),
      },
    ],
    bands: names.map((_, index) => ({
      series: [index * 3 + 2, index * 3 + 1] as [number, number],
      fill: colour(index) + SPAN,
    })),
    series: [
      {},
      ...names.flatMap((label, index): uPlot.Series[] => [
        { label: `${label}, least`, stroke: "transparent", width: 0, points: { show: false } },
        { label: `${label}, most`, stroke: "transparent", width: 0, points: { show: false } },
        {
          label,
          stroke: colour(index) || ink,
          width: 2,
          dash: index >= series.length ? [6, 4] : [],
          points: { show: false },
        },
      ]),
    ],
  };
}

/** Returns the width of an axis, px. It grows in steps, so that the chart does not move with each label. */
function room(texts: readonly string[] | null): number {
  const longest = Math.max(4, ...(texts ?? []).map((text) => text.length));
  return 22 + Math.ceil(longest / 2) * 14;
}

function figure(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : brief(value);
}

function span(least: number | null | undefined, most: number | null | undefined): string {
  return least === most ? "" : `${figure(least)} to ${figure(most)}`;
}

/** Returns a time in the reader's time zone: `21:04:08`. */
function clock(atS: number): string {
  return new Date(atS * 1000).toTimeString().slice(0, 8);
}
