/** The functions of the page of `hub.js`, for tests. */

/** A message about a topic (docs/reference/messages.md). */
export interface HubMessage {
  readonly topic: string;
  readonly position: string;
  readonly events?: readonly unknown[];
  readonly gap?: { readonly missed: number | null; readonly reason: string };
}

export interface Hub {
  open(transport: string, token?: string): Promise<void>;
  follow(topic: string): void;
  stream(topic: string): void;
  /** Returns the result, or the text of the error. */
  invoke(method: string, ...args: readonly unknown[]): Promise<unknown>;
  next(kind: "item" | "events"): Promise<HubMessage>;
  next(kind: "error"): Promise<string>;
  next(kind: "reconnecting" | "reconnected"): Promise<null>;
  /** Returns all messages about topics that no test has awaited yet. */
  take(kind: "item"): readonly HubMessage[];
  stop(): Promise<void>;
}

declare global {
  // A global of the test's page. Node does not have it.
  var hub: Hub;
}
