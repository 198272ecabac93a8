/** The plan of a run: its cells, their order, and its duration. Pure. */

import type { TransportName } from "thalweg";
import { counted } from "../format.js";

/** One combination of the parameters. */
export interface Cell {
  readonly transport: TransportName;
  /** Rows that the server sends every millisecond; `null` in experiment B. */
  readonly batch: number | null;
  readonly connections: number;
}

/** Experiment A1: how many rows of a firehose arrive. */
export interface RowsPlan {
  readonly experiment: "a1";
  readonly transports: readonly TransportName[];
  readonly batches: readonly number[];
  readonly connections: readonly number[];
  readonly seconds: number;
  readonly repeats: number;
}

/** Experiment B: the duration of round trips, one after another. */
export interface TripsPlan {
  readonly experiment: "b";
  readonly transports: readonly TransportName[];
  readonly trips: number;
  readonly repeats: number;
}

export type Plan = RowsPlan | TripsPlan;

/** Connections that can be measured over HTTP/1.1: a browser opens six to an origin, and one is needed for requests. */
export const HTTP_1_MAX = 5;
/** Largest number of connections. Browsers limit WebSockets separately. */
export const CONNECTIONS_MAX = 100;
/** Time that a sample runs before it is measured, ms: the browser compiles code and fills buffers. */
export const WARM_UP_MS = 500;
/** Estimated time to open and close connections, ms. */
const AROUND_MS = 300;
/** Estimated duration of a round trip, ms; used until one has been measured. */
const TRIP_MS = 1.5;

export function cells(plan: Plan): Cell[] {
  if (plan.experiment === "b") return plan.transports.map((transport) => ({ transport, batch: null, connections: 1 }));
  return plan.connections.flatMap((connections) =>
    plan.batches.flatMap((batch) => plan.transports.map((transport) => ({ transport, batch, connections }))),
  );
}

/** Returns the reason why a browser cannot measure a cell; `null` if it can. */
export function hindrance({ transport, connections }: Cell, isHttp1: boolean): string | null {
  if (connections > CONNECTIONS_MAX) return `more than ${CONNECTIONS_MAX} connections`;
  if (transport === "websocket" || !isHttp1 || connections <= HTTP_1_MAX) return null;
  return `over HTTP/1.1 a browser opens at most six connections to a server; ${HTTP_1_MAX} of them can be measured`;
}

/** Returns all cells once per repeat, each time in a random order. */
export function turns(plan: Plan, isHttp1: boolean, random: () => number): Cell[][] {
  const possible = cells(plan).filter((cell) => !hindrance(cell, isHttp1));
  return Array.from({ length: plan.repeats }, () => shuffled(possible, random));
}

export function estimateMs(plan: Plan, isHttp1: boolean): number {
  const count = cells(plan).filter((cell) => !hindrance(cell, isHttp1)).length * plan.repeats;
  const each = plan.experiment === "a1" ? WARM_UP_MS + plan.seconds * 1000 : plan.trips * TRIP_MS;
  return count * (each + AROUND_MS);
}

export function label({ batch, connections }: Cell): string {
  if (batch === null) return "round trips";
  return `${counted(batch, "row")} per ms × ${connections}`;
}

/** Groups items whose cells differ only in transport. Groups keep the order of their first items. */
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
