/** The kind of a request, as a proxy sees it. Pure. */

import type { IncomingMessage } from "node:http";

/** A transport (docs/reference/subscribing.md), columns, or another request. */
export type Kind = "websocket" | "http-streaming" | "sse" | "forever-frame" | "long-polling" | "arrow" | "other";

export interface SeenRequest {
  readonly kind: Kind;
  readonly method: string;
  readonly url: URL;
  readonly headers: IncomingMessage["headers"];
}

export function seenRequest({ method = "GET", url = "/", headers }: IncomingMessage): SeenRequest {
  const to = new URL(url, "http://proxy");
  return { kind: kind(method, to, headers), method, url: to, headers };
}

/** Transports that the URL names. */
const NAMED: readonly string[] = ["http-streaming", "sse", "forever-frame", "long-polling"];

function kind(method: string, url: URL, headers: IncomingMessage["headers"]): Kind {
  if (headers.upgrade === "websocket") return "websocket";
  if (method !== "GET" || !url.pathname.startsWith("/v1/topics")) return "other";
  const named = url.searchParams.get("transport");
  if (named && NAMED.includes(named)) return named as Kind;
  if (headers.accept === "application/vnd.apache.arrow.stream") return "arrow";
  if (headers.accept === "text/event-stream") return "sse";
  if (headers.accept === "application/x-ndjson") return "http-streaming";
  return url.searchParams.has("wait") ? "long-polling" : "other";
}
