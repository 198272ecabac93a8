/** The chart of the highest speed in each second of the last minute. */

import type { Session } from "thalweg";
import { plane } from "../plane.js";
import { speed } from "./code/speed.js";
import { at, type Draw, onLook, say } from "./page.js";

const WINDOW_S = 60;
/** The axis of speeds begins and ends at multiples of this, km/h. */
const STEP_KMH = 10;

export function speedChart(session: Session): Draw {
  const canvas = at<HTMLCanvasElement>("chart");
  let points: { s: number; kmh: number }[] = [];
  let isDrawn = true;
  speed(session, (ms: number, kmh: number) => {
    const s = ms / 1000;
    points = [...points.filter((point) => point.s < s && point.s >= s - WINDOW_S), { s, kmh }];
    isDrawn = false;
  });
  onLook(canvas, () => (isDrawn = false));

  return () => {
    const newest = points.at(-1);
    if (isDrawn || !newest) return;
    isDrawn = true;
    const speeds = points.map(({ kmh }) => kmh);
    const [least, most] = [Math.min(...speeds), Math.max(...speeds)];
    const y = { least: Math.floor(least / STEP_KMH - 1) * STEP_KMH, most: Math.ceil(most / STEP_KMH) * STEP_KMH };
    const drawn = plane(canvas, { least: -WINDOW_S, most: 0 }, y, null);
    if (!drawn) return;
    const { context, palette, across, up } = drawn;
    const colour = palette.series[0] ?? palette.ink;
    const x = (s: number): number => across(s - newest.s);
    context.beginPath();
    for (const { s, kmh } of points) context.lineTo(x(s), up(kmh));
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = 2;
    context.lineJoin = "round";
    context.stroke();
    context.lineTo(x(newest.s), up(y.least));
    context.lineTo(x((points[0] ?? newest).s), up(y.least));
    context.globalAlpha = 0.12;
    context.fill();
    context.globalAlpha = 1;
    context.beginPath();
    context.arc(x(newest.s), up(newest.kmh), 4, 0, 2 * Math.PI);
    context.fill();
    say(at("chart-live"), `${newest.kmh.toFixed(1)} km/h now, at most ${most.toFixed(1)} km/h in the last minute`);
  };
}
