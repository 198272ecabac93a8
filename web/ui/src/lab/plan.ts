/** What the lab page is to measure: cells, in which order, for how long. Pure. */

import type { TransportName } from "thalweg";
import { counted } from "../format.js";

/** One combination of what is varied. */
export interface Cell {
  readonly transport: TransportName;
  /** Rows that the server sends every millisecond; `null` in experiment B. */
  readonly batch: number | null;
  readonly connections: number;
}

/** Experiment A1: how much of a firehose arrives. */
export interface RowsPlan {
  readonly experiment: "a1";
  readonly transports: readonly TransportName[];
  readonly batches: readonly number[];
  readonly connections: readonly number[];
  /** How long a sample is measured, s. */
  readonly seconds: number;
  readonly repeats: number;
}

/** Experiment B: how long round trips take, one after the other. */
export interface TripsPlan {
  readonly experiment: "b";
  readonly transports: readonly TransportName[];
  readonly trips: number;
  readonly repeats: number;
}

export type Plan = RowsPlan | TripsPlan;

/** Connections to one origin over HTTP/1.1 that a browser opens, one left for questions. */
export const HTTP_1_MAX = 5;
/** WebSockets are counted apart; more than these are more than a page needs. */
export const CONNECTIONS_MAX = 100;
/** Before a sample is measured it runs for so long, ms: what is compiled and buffered settles. */
export const WARM_UP_MS = 500;
/** What opening and closing takes, about, ms. */
const AROUND_MS = 300;
/** What a round trip takes, about, ms: for the time left before any has been made. */
const TRIP_MS = 1.5;

export function cells(plan: Plan): Cell[] {
  if (plan.experiment === "b") return plan.transports.map((transport) => ({ transport, batch: null, connections: 1 }));
  return plan.connections.flatMap((connections) =>
    plan.batches.flatMap((batch) => plan.transports.map((transport) => ({ transport, batch, connections }))),
  );
}

/** Why a browser could not do this; `null` if it can. */
export function hindrance({ transport, connections }: Cell, isHttp1: boolean): string | null {
  if (connections > CONNECTIONS_MAX) return `more than ${CONNECTIONS_MAX} connections`;
  if (transport === "websocket" || !isHttp1 || connections <= HTTP_1_MAX) return null;
  return `over HTTP/1.1 a browser opens six connections to a server: at most ${HTTP_1_MAX} can be measured`;
}

/** Every cell once, then every cell again, each time in another order. */
export function turns(plan: Plan, isHttp1: boolean, random: () => number): Cell[][] {
  const possible = cells(plan).filter((cell) => !hindrance(cell, isHttp1));
  return Array.from({ length: plan.repeats }, () => shuffled(possible, random));
}

/** How long a plan takes, about, ms. */
export function estimateMs(plan: Plan, isHttp1: boolean): number {
  const count = cells(plan).filter((cell) => !hindrance(cell, isHttp1)).length * plan.repeats;
  const each = plan.experiment === "a1" ? WARM_UP_MS + plan.seconds * 1000 : plan.trips * TRIP_MS;
  return count * (each + AROUND_MS);
}

export function label({ batch, connections }: Cell): string {
  if (batch === null) return "round trips";
  return `${counted(batch, "row")} per ms × ${connections}`;
}

/** Those that differ in transport only, together, in the order that they are in. */
export function shapes<T>(all: readonly T[], of: (one: T) => Cell): [name: string, group: T[]][] {
  const groups = new Map<string, T[]>();
  for (const one of all) {
    const name = label(of(one));
    const group = groups.get(name);
    if (group) group.push(one);
    else groups.set(name, [one]);
  }
  return [...groups];
}

export function isSame(one: Cell, other: Cell): boolean {
  return one.transport === other.transport && one.batch === other.batch && one.connections === other.connections;
}

function shuffled<T>(all: readonly T[], random: () => number): T[] {
  const order = [...all];
  for (let index = order.length - 1; index > 0; index--) {
    const other = Math.floor(random() * (index + 1));
    [order[index], order[other]] = [order[other] as T, order[index] as T];
  }
  return order;
}
