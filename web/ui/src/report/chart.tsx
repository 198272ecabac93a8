/** A chart of lines with intervals as whiskers. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useIsDark } from "../colours.js";
import { brief, scale } from "../format.js";

export interface Point {
  readonly x: number;
  readonly y: number;
  readonly low?: number;
  readonly high?: number;
  /** Whether the mark is hollow: something else than the subject was the limit. */
  readonly isHollow?: boolean;
}

export interface Line {
  readonly name: string;
  /** A class of colours. */
  readonly look: string;
  readonly points: readonly Point[];
  /** Whether only marks are drawn. */
  readonly isLoose?: boolean;
}

interface Props {
  readonly title: string;
  readonly xTitle: string;
  readonly lines: readonly Line[];
  /** Labels of x = 0, 1, 2 …; without them, x is a number. */
  readonly names?: readonly string[];
  readonly isLogX?: boolean;
}

const HEIGHT = 220;
/** From this ratio of the largest to the smallest value on, the axis is logarithmic. */
const LOG_FROM = 30;
/** A line of more points has no marks. */
const MARKS_MAX = 20;

export function Chart({ title, xTitle, lines, names, isLogX = false }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const isDark = useIsDark();
  useEffect(() => {
    const host = place.current;
    if (!host) return;
    const xs = [...new Set(lines.flatMap(({ points }) => points.map(({ x }) => x)))].sort((a, b) => a - b);
    const values = (line: Line) => xs.map((x) => line.points.find((point) => point.x === x)?.y ?? null);
    const data = [xs, ...lines.map(values)] as uPlot.AlignedData;
    const plot = new uPlot(
      { ...options(host, lines, xs, names, isLogX), width: host.clientWidth, height: HEIGHT },
      data,
      host,
    );
    const resize = new ResizeObserver(() => plot.setSize({ width: host.clientWidth, height: HEIGHT }));
    resize.observe(host);
    return () => {
      resize.disconnect();
      plot.destroy();
    };
  }, [lines, names, isDark]);
  const described = lines.map(({ name, points }) => {
    const each = points.map(({ x, y }) => `${names?.[x] ?? brief(x)}: ${brief(y)}`);
    return `${name}: ${each.join(", ")}`;
  });
  return (
    <figure>
      <figcaption>{title}</figcaption>
      <div ref={place} class="plot" role="img" aria-label={`${title}. ${described.join(". ")}`} />
      <p class="axis">{xTitle}</p>
    </figure>
  );
}

function options(
  host: Element,
  lines: readonly Line[],
  xs: readonly number[],
  names: readonly string[] | undefined,
  isLogX: boolean,
): Omit<uPlot.Options, "width" | "height"> {
  const style = getComputedStyle(host);
  const value = (name: string): string => style.getPropertyValue(name).trim();
  const colour = ({ look }: Line): string => value(look === "base" ? "--ink" : `--${look}`);
  const all = lines.flatMap(({ points }) => points.flatMap(({ y, low = y, high = y }) => [y, low, high]));
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const isLog = least > 0 && most / least > LOG_FROM;
  const font = "12px system-ui, sans-serif";
  const line: uPlot.Axis = {
    stroke: value("--soft"),
    font,
    grid: { stroke: value("--faint"), width: 1 },
    ticks: { stroke: value("--faint"), width: 1 },
  };
  return {
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 12, 0, 0],
    scales: {
      x: {
        time: false,
        ...(names && { range: [-0.4, names.length - 0.6] as uPlot.Range.MinMax }),
        ...(isLogX && { distr: 3 }),
        ...(!names &&
          !isLogX &&
          xs.length === 1 && { range: [Number(xs[0]) - 1, Number(xs[0]) + 1] as uPlot.Range.MinMax }),
      },
      y: isLog
        ? { distr: 3, range: (_plot, low, high) => uPlot.rangeLog(low, high, 10, true) }
        : { range: [0, most > 0 ? most * 1.1 : 1] },
    },
    axes: [
      {
        ...line,
        ...(names && { splits: names.map((_, index) => index), values: () => [...names], space: 20 }),
        ...(!names && {
          values: (_plot, splits) => splits.map((split) => (split === null ? "" : brief(split))),
        }),
      },
      {
        ...line,
        size: 64,
        values: (_plot, splits, _axis, _space, step) =>
          splits.map((split) => (split === null ? "" : isLog ? brief(split) : scale(split, step))),
      },
    ],
    series: [
      {},
      ...lines.map(
        (one): uPlot.Series => ({
          label: one.name,
          stroke: colour(one),
          width: one.isLoose ? 0 : 1.5,
          dash: one.look === "again" ? [4, 4] : [],
          spanGaps: true,
          points: { show: false },
        }),
      ),
    ],
    hooks: {
      draw: [
        (plot) => {
          const marked = lines.filter((one) => one.isLoose || one.points.length <= MARKS_MAX);
          for (const one of marked) marks(plot, one, colour(one), value("--paper"));
        },
      ],
    },
  };
}

/** Draws whiskers and marks. */
function marks(plot: uPlot, { points }: Line, colour: string, paper: string): void {
  const { ctx } = plot;
  const unit = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1.5 * unit;
  for (const { x, y, low, high, isHollow } of points) {
    const left = plot.valToPos(x, "x", true);
    const top = plot.valToPos(y, "y", true);
    ctx.beginPath();
    if (low !== undefined && high !== undefined && high > low) {
      const [from, to] = [
        plot.valToPos(high, "y", true),
        plot.valToPos(Math.max(low, plot.scales["y"]?.min ?? 0), "y", true),
      ];
      ctx.moveTo(left, from);
      ctx.lineTo(left, to);
      for (const end of [from, to]) {
        ctx.moveTo(left - 4 * unit, end);
        ctx.lineTo(left + 4 * unit, end);
      }
      ctx.stroke();
      ctx.beginPath();
    }
    ctx.arc(left, top, 3.5 * unit, 0, 2 * Math.PI);
    ctx.fillStyle = isHollow ? paper : colour;
    ctx.fill();
    ctx.stroke();
  }
  ctx.restore();
}
