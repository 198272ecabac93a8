/** The runs of the lab that a server shows. */

import { errorMessage, type Problem, problemOf, request } from "../server.js";

/** One of them, as `GET /runs` lists it. */
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

/** What a server says of its runs: some, or why it has none. */
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

/** A file of a run. */
export function file(run: string, name: "report.html"): string {
  return `runs/${encodeURIComponent(run)}/${name}`;
}

/** As it is written here; what is no time stays as it is. */
export function date(text: string): string {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? text : at.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

/** `Intel Xeon 2.50GHz`: without what every processor is called. Pure. */
export function processor(machine: string): string {
  return machine
    .replace(/\((R|TM)\)|\b(CPU|Processor)\b|@/gi, " ")
    .replace(/\s+/g, " ")
    .trim();
}
