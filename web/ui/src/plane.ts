/** A canvas with two axes: grid lines, labels, and the place of each pair of coordinates. */

import { type Colours, colours } from "./colours.js";
import { scale } from "./format.js";
import { type Extent, ticks } from "./live/ticks.js";

/** Space between axis names, labels and the plane, px. */
const GAP = 8;
/** Approximate distance between grid lines, px, with names and without. */
const EVERY = { named: { x: 140, y: 90 }, unnamed: { x: 90, y: 45 } };

export interface Plane {
  readonly context: CanvasRenderingContext2D;
  readonly palette: Colours;
  /** Returns the distance of a coordinate from the left edge of the canvas, px. */
  across(x: number): number;
  /** Returns the distance of a coordinate from the upper edge of the canvas, px. */
  up(y: number): number;
}

/** Clears a canvas and draws the axes. @param names - names of both axes; `null` for axes without names and denser grid lines. */
export function plane(
  canvas: HTMLCanvasElement,
  x: Extent,
  y: Extent,
  names: readonly [string, string] | null,
): Plane | null {
  const context = canvas.getContext("2d");
  if (!context) return null;
  const palette = colours(canvas);
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  // Also clears the canvas.
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  context.scale(devicePixelRatio, devicePixelRatio);
  const top = names ? 14 : 6;
  const [right, bottom] = [width - 28, height - (names ? 40 : 22)];
  context.font = "12px system-ui, sans-serif";
  const lines = (extent: Extent, px: number): { at: number; text: string }[] => {
    const { at, step } = ticks(extent, Math.max(2, Math.round(px)));
    return at.map((value) => ({ at: value, text: scale(value, step) }));
  };
  const every = names ? EVERY.named : EVERY.unnamed;
  const [columns, rows] = [lines(x, width / every.x), lines(y, height / every.y)];
  const widest = Math.max(0, ...rows.map(({ text }) => context.measureText(text).width));
  const left = Math.ceil(widest) + (names ? 12 + 3 * GAP : GAP);
  const across = (value: number): number => left + ((value - x.least) / (x.most - x.least)) * (right - left);
  const up = (value: number): number => bottom - ((value - y.least) / (y.most - y.least)) * (bottom - top);

  context.fillStyle = palette.axis;
  context.strokeStyle = palette.grid;
  context.strokeRect(left, top, right - left, bottom - top);
  const line = (...[fromX, fromY, toX, toY]: [number, number, number, number]): void => {
    context.beginPath();
    context.moveTo(fromX, fromY);
    context.lineTo(toX, toY);
    context.stroke();
  };
  context.textAlign = "center";
  for (const { at, text } of columns) {
    line(across(at), top, across(at), bottom);
    context.fillText(text, across(at), bottom + 16);
  }
  context.textAlign = "right";
  for (const { at, text } of rows) {
    line(left, up(at), right, up(at));
    context.fillText(text, left - GAP, up(at) + 4);
  }
  if (names) {
    context.textAlign = "center";
    context.fillText(names[0], (left + right) / 2, height - 6);
    context.save();
    context.translate(GAP + 9, (top + bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(names[1], 0, 0);
    context.restore();
  }
  return { context, palette, across, up };
}
