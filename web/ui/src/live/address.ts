/** The state of the live page that its address stores, so that readers can share and reload it. */

import type { View } from "./defaults.js";

export interface Address {
  readonly topic: string | null;
  readonly view: View | null;
  /** Replaces `topic`. */
  readonly query: string | null;
}

export function read(search: string): Address {
  const parameters = new URLSearchParams(search);
  const view = parameters.get("view");
  const isView = view === "document" || view === "table" || view === "chart" || view === "map";
  return { topic: parameters.get("topic"), view: isView ? view : null, query: parameters.get("query") || null };
}

export function write({ topic, view, query }: Address): string {
  // `/` needs no escape in a query string, and is easier to read.
  const named = topic && `topic=${encodeURIComponent(topic).replaceAll("%2F", "/")}`;
  const asked = query && `query=${encodeURIComponent(query).replaceAll("%20", "+")}`;
  return `?${[asked ?? named, view && `view=${view}`].filter(Boolean).join("&")}`;
}
