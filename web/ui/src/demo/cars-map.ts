/** The map of all cars. A car moves to its next position in the second until the one after. */

import type { Session } from "thalweg";
import { plane } from "../plane.js";
import { cars } from "./code/cars.js";
import { at, type Draw, onLook, say } from "./page.js";

/** The region of the demo's roads (`crates/thalweg-server/src/source/cars.rs`), degrees. */
const LONGITUDE = { least: 16.55, most: 17.15 };
const LATITUDE = { least: 54.05, most: 54.65 };
/** Number of roads. The car N drives on the road N % 12. */
const ROADS = 12;
/** Time between two positions of a car, ms. */
const STEP_MS = 1000;
/** Speeds from which a car has the next colour, km/h. The legend is in demo.html. */
const FAST_KMH = 80;
const MIDDLE_KMH = 50;

interface Spot {
  readonly x: number;
  readonly y: number;
  readonly kmh: number;
}

interface Car {
  before: Spot;
  now: Spot;
  sinceMs: number;
}

/** Returns the position between two positions. @param share - 0 at the first one, 1 at the second one. */
export function between(before: Spot, now: Spot, share: number): Spot {
  const part = (from: number, to: number): number => from + (to - from) * Math.min(Math.max(share, 0), 1);
  return { x: part(before.x, now.x), y: part(before.y, now.y), kmh: part(before.kmh, now.kmh) };
}

export function carsMap(session: Session): Draw {
  const canvas = at<HTMLCanvasElement>("map");
  const isStill = matchMedia("(prefers-reduced-motion: reduce)");
  const all = new Map<string, Car>();
  /** The westernmost and the easternmost position on each road. Roads are straight. */
  const roads: { west: Spot; east: Spot }[] = [];
  let movesUntilMs = 0;
  let isChanged = true;
  const spotAt = ({ before, now, sinceMs }: Car, nowMs: number): Spot =>
    between(before, now, isStill.matches ? 1 : (nowMs - sinceMs) / STEP_MS);

  cars(session, (name: string, x: number, y: number, kmh: number) => {
    const nowMs = Date.now();
    const now = { x, y, kmh };
    const known = all.get(name);
    all.set(name, { before: known ? spotAt(known, nowMs) : now, now, sinceMs: nowMs });
    const road = (roads[Number(name.slice(1)) % ROADS] ??= { west: now, east: now });
    if (x < road.west.x) road.west = now;
    if (x > road.east.x) road.east = now;
    movesUntilMs = nowMs + STEP_MS;
    isChanged = true;
  });
  onLook(canvas, () => (isChanged = true));

  let drawnMs = 0;
  return (nowMs) => {
    if (!isChanged && (isStill.matches || drawnMs > movesUntilMs)) return;
    [isChanged, drawnMs] = [false, nowMs];
    const drawn = plane(canvas, LONGITUDE, LATITUDE, null);
    if (!drawn) return;
    const { context, palette, across, up } = drawn;
    const [middle, fast, slow] = palette.series;
    context.strokeStyle = palette.axis;
    context.globalAlpha = 0.2;
    context.lineWidth = 3;
    context.lineCap = "round";
    for (const { west, east } of roads.filter(Boolean)) {
      context.beginPath();
      context.moveTo(across(west.x), up(west.y));
      context.lineTo(across(east.x), up(east.y));
      context.stroke();
    }
    context.globalAlpha = 1;
    let fastest: (Spot & { name: string }) | undefined;
    for (const [name, car] of all) {
      const spot = spotAt(car, nowMs);
      if (!fastest || car.now.kmh > fastest.kmh) fastest = { ...spot, name, kmh: car.now.kmh };
      context.fillStyle = (spot.kmh >= FAST_KMH ? fast : spot.kmh >= MIDDLE_KMH ? middle : slow) ?? palette.ink;
      context.beginPath();
      context.arc(across(spot.x), up(spot.y), 1.5 + spot.kmh / 30, 0, 2 * Math.PI);
      context.fill();
    }
    if (!fastest) return;
    context.strokeStyle = palette.ink;
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(across(fastest.x), up(fastest.y), 9, 0, 2 * Math.PI);
    context.stroke();
    say(at("map-live"), `${all.size} cars, the fastest ${fastest.name} at ${Math.round(fastest.kmh)} km/h`);
  };
}
