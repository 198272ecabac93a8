/** Reads the trace of a subject from the server. */

import { errorMessage, request } from "../server.js";

/** A line of a trace. */
export interface TraceLine {
  readonly at_ms: number;
  readonly what: string;
  /** The number of the subscriber's connection. */
  readonly connection?: string;
  readonly transport?: string;
  readonly topic?: string;
  readonly key?: string;
  readonly position?: string;
  readonly events?: number;
  readonly bytes?: number;
  readonly path?: string;
  /** The reason for which a connection, a subscription or the trace ended. */
  readonly reason?: string;
  /** The number of lines that were dropped. */
  readonly lines?: number;
  /** How long the trace lasts at most. */
  readonly ends_in_s?: number;
  /** The code of a refusal. */
  readonly code?: string;
}

/** Calls `took` with the lines as they arrive. Returns when the trace has ended. */
export async function follow(
  subject: string,
  signal: AbortSignal,
  took: (lines: readonly TraceLine[]) => void,
): Promise<void> {
  const response = await request(`overview/trace?${new URLSearchParams({ subject })}`, { isQuiet: true, signal });
  if (!response.ok || !response.body) throw new Error(await errorMessage(response));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const texts = (rest + value).split("\n");
    rest = texts.pop() ?? "";
    const lines = texts.map((text) => JSON.parse(text) as TraceLine | { readonly heartbeat: object });
    took(lines.filter((line) => "what" in line));
  }
}
