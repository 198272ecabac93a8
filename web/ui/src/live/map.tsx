/** A map of positions: the newest position of each thing, and its track. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { useIsDark } from "../colours.js";
import { plane } from "../plane.js";
import { cell, shown } from "./columns.js";
import type { Coordinates } from "./defaults.js";
import type { Rows } from "./rows.js";
import type { Extent } from "./ticks.js";

/** Maximum number of rows drawn. */
const ROWS = 5000;
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
  const drawn = plane(canvas, x, y, names);
  if (!drawn) return;
  const { context, palette, across, up } = drawn;
  const dot = (point: Point, radius: number): void => {
    context.beginPath();
    context.arc(across(point.x), up(point.y), radius, 0, 2 * Math.PI);
    context.fill();
  };
  context.fillStyle = palette.series[0] ?? palette.ink;
  context.globalAlpha = 0.12;
  for (const point of points) if (!point.isNewest) dot(point, 1.5);
  context.globalAlpha = 1;
  for (const point of points) if (point.isNewest) dot(point, 3.5);
}
