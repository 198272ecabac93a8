/** What of the live page is in its address: it can be shared, and loaded again. */

import type { View } from "./defaults.js";

export interface Address {
  readonly topic: string | null;
  readonly view: View | null;
  /** Instead of a topic. */
  readonly query: string | null;
}

export function read(search: string): Address {
  const parameters = new URLSearchParams(search);
  const view = parameters.get("view");
  const isView = view === "document" || view === "table" || view === "chart" || view === "map";
  return { topic: parameters.get("topic"), view: isView ? view : null, query: parameters.get("query") || null };
}

export function write({ topic, view, query }: Address): string {
  // In a query `/` needs no escape, and people read it.
  const named = topic && `topic=${encodeURIComponent(topic).replaceAll("%2F", "/")}`;
  const asked = query && `query=${encodeURIComponent(query).replaceAll("%20", "+")}`;
  return `?${[asked ?? named, view && `view=${view}`].filter(Boolean).join("&")}`;
}
