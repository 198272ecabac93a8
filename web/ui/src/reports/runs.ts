/** The list of the lab's runs that a server shows. */

import type { Summary } from "../report/summary.js";
import { errorMessage, type Problem, problemOf, request } from "../server.js";

/** A run, as `GET /runs` lists it. */
export interface Run {
  readonly name: string;
  readonly scenario?: string;
  readonly title?: string;
  /** RFC 3339. */
  readonly begun?: string;
  readonly version?: string;
  readonly machine?: string;
  readonly has_report: boolean;
  readonly has_summary: boolean;
}

/** The server's answer: its runs, or the reason why it has none. */
export type Listed =
  | { readonly runs: readonly Run[]; readonly more?: boolean }
  | { readonly none: string }
  | { readonly problem: Problem };

export async function list(): Promise<Listed> {
  try {
    const response = await request("runs");
    if (response.ok) return (await response.json()) as { runs: Run[]; more?: boolean };
    const message = await errorMessage(response);
    return response.status === 404 ? { none: message } : { problem: problemOf(message) };
  } catch (error) {
    return { problem: problemOf(error) };
  }
}

/** A run's summary, or the reason why it cannot be shown. */
export type Found = { readonly summary: Summary } | { readonly problem: Problem };

export async function read(run: string): Promise<Found> {
  try {
    const response = await request(file(run, "summary.json"));
    if (!response.ok) return { problem: problemOf(await errorMessage(response)) };
    return { summary: (await response.json()) as Summary };
  } catch (error) {
    return { problem: problemOf(error) };
  }
}

export function file(run: string, name: "report.html" | "summary.json"): string {
  return `runs/${encodeURIComponent(run)}/${name}`;
}

/** Returns a date in the reader's time zone; a text that is not a date is returned unchanged. */
export function date(text: string): string {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? text : at.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

/** Returns a processor's name without the words that all names contain: `Intel Xeon 2.50GHz`. Pure. */
export function processor(machine: string): string {
  return machine
    .replace(/\((R|TM)\)|\b(CPU|Processor)\b|@/gi, " ")
    .replace(/\s+/g, " ")
    .trim();
}
