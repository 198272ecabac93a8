/** A map of positions: the newest position of each thing, and its track. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { colours, useIsDark } from "../colours.js";
import { scale } from "../format.js";
import { cell, shown } from "./columns.js";
import type { Coordinates } from "./defaults.js";
import type { Rows } from "./rows.js";
import { type Extent, ticks } from "./ticks.js";

/** Maximum number of rows drawn. */
const ROWS = 5000;
/** Space around the map for axis labels, px. The left margin depends on the labels. */
const EDGE = { right: 28, top: 14, bottom: 40 };
/** Space between axis names, labels and the map, px. */
const GAP = 8;
/** Approximate distance between grid lines, px. */
const EVERY = { x: 140, y: 90 };
/** Extra space around the positions, as a share, so that the axes rarely change. */
const MARGIN = 0.04;

interface Props {
  readonly rows: Rows;
  readonly at: Coordinates | null;
  readonly tick: number;
}

export function PositionMap({ rows, at, tick }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const extents = useRef<{ key: string; x: Extent; y: Extent } | null>(null);
  const isDark = useIsDark();

  useLayoutEffect(() => {
    if (!canvas.current || !at) return;
    const points = pointsOf(rows, at);
    const key = `${at.x.name}\n${at.y.name}`;
    if (extents.current?.key !== key) extents.current = null;
    const x = wider(
      extents.current?.x,
      points.map((point) => point.x),
    );
    const y = wider(
      extents.current?.y,
      points.map((point) => point.y),
    );
    if (!x || !y) return;
    extents.current = { key, x, y };
    draw(canvas.current, points, x, y, [at.x.name, at.y.name]);
  }, [tick, at, isDark]);

  if (!at) {
    return (
      <p class="empty">
        A map needs two columns of numbers as coordinates, for example named longitude and latitude, or x and y. This
        topic has no such columns.
      </p>
    );
  }
  const what = at.name ? `each ${at.name.name}` : "the newest events";
  return <canvas class="map" ref={canvas} role="img" aria-label={`Map of ${what} by ${at.x.name} and ${at.y.name}`} />;
}

interface Point {
  x: number;
  y: number;
  isNewest: boolean;
}

/** Returns the positions, the oldest first. */
function pointsOf(rows: Rows, { x, y, name }: Coordinates): Point[] {
  const seen = new Set<string>();
  const points: Point[] = [];
  for (let index = rows.length - 1; index >= Math.max(0, rows.length - ROWS); index--) {
    const { event, key } = rows.at(index) ?? {};
    const point = { x: Number(cell(event, x)), y: Number(cell(event, y)), isNewest: true };
    if (!Number.isFinite(point.x) || !Number.isFinite(point.y)) continue;
    const thing = key ?? (name ? shown(cell(event, name)) : `${index}`);
    point.isNewest = !seen.has(thing);
    seen.add(thing);
    points.push(point);
  }
  return points.reverse();
}

/** Returns an extent that contains these values and the previous extent. */
function wider(before: Extent | undefined, values: readonly number[]): Extent | null {
  if (!values.length) return before ?? null;
  let [least, most] = [Infinity, -Infinity];
  for (const value of values) {
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  if (before && least >= before.least && most <= before.most) return before;
  least = Math.min(least, before?.least ?? Infinity);
  most = Math.max(most, before?.most ?? -Infinity);
  // A margin is also needed if all values are equal.
  const margin = (most - least || Math.abs(most) || 1) * MARGIN;
  return { least: least - margin, most: most + margin };
}

function draw(
  canvas: HTMLCanvasElement,
  points: readonly Point[],
  x: Extent,
  y: Extent,
  names: readonly [string, string],
): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  const { ink, axis, grid, series } = colours(canvas);
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  context.scale(devicePixelRatio, devicePixelRatio);
  const [right, bottom] = [width - EDGE.right, height - EDGE.bottom];
  context.font = "12px system-ui, sans-serif";
  const lines = (extent: Extent, px: number): { at: number; text: string }[] => {
    const { at, step } = ticks(extent, Math.max(2, Math.round(px)));
    return at.map((value) => ({ at: value, text: scale(value, step) }));
  };
  const [columns, rows] = [lines(x, width / EVERY.x), lines(y, height / EVERY.y)];
  const widest = Math.max(0, ...rows.map(({ text }) => context.measureText(text).width));
  const left = Math.ceil(widest) + 12 + 3 * GAP;
  const across = (value: number): number => left + ((value - x.least) / (x.most - x.least)) * (right - left);
  const up = (value: number): number => bottom - ((value - y.least) / (y.most - y.least)) * (bottom - EDGE.top);

  context.fillStyle = axis;
  context.strokeStyle = grid;
  context.strokeRect(left, EDGE.top, right - left, bottom - EDGE.top);
  const line = (...[fromX, fromY, toX, toY]: [number, number, number, number]): void => {
    context.beginPath();
    context.moveTo(fromX, fromY);
    context.lineTo(toX, toY);
    context.stroke();
  };
  context.textAlign = "center";
  for (const { at, text } of columns) {
    line(across(at), EDGE.top, across(at), bottom);
    context.fillText(text, across(at), bottom + 16);
  }
  context.fillText(names[0], (left + right) / 2, height - 6);
  context.textAlign = "right";
  for (const { at, text } of rows) {
    line(left, up(at), right, up(at));
    context.fillText(text, left - GAP, up(at) + 4);
  }
  context.textAlign = "center";
  context.save();
  context.translate(GAP + 9, (EDGE.top + bottom) / 2);
  context.rotate(-Math.PI / 2);
  context.fillText(names[1], 0, 0);
  context.restore();

  const dot = (point: Point, radius: number): void => {
    context.beginPath();
    context.arc(across(point.x), up(point.y), radius, 0, 2 * Math.PI);
    context.fill();
  };
  context.fillStyle = series[0] ?? ink;
  context.globalAlpha = 0.12;
  for (const point of points) if (!point.isNewest) dot(point, 1.5);
  context.globalAlpha = 1;
  for (const point of points) if (point.isNewest) dot(point, 3.5);
}
