/** A topic and how it is received: a session and a feed. */

import { type Cursor, connect, type Status, type Subscription, type TransportName } from "thalweg";
import { foreverFrame } from "thalweg/forever-frame";
import { sentence, token } from "../server.js";
import { Feed } from "./feed.js";
import { names } from "./names.js";
import { type Topic, topic } from "./topics.js";

/** What can be chosen; `null` is the best that works. */
export const TRANSPORTS: readonly (TransportName | null)[] = [
  null,
  "websocket",
  "http-streaming",
  "sse",
  "forever-frame",
  "long-polling",
];

/**
 * Of what was before, so many events are asked for at most, and of more than a few at most
 * the newer half: the oldest may be gone by the time that they are asked for. Where offsets are not
 * consecutive it is fewer: so many offsets.
 */
const BEFORE = 20_000;
const FEW = 10_000;

export class Live {
  readonly feed: Feed;
  status: Status = { state: "connecting", transport: null, reason: null };
  /** Why nothing comes any more, for good. */
  failure: string | null = null;
  readonly #topic: string;
  readonly #session = connect(".", { token, onStatus: (status) => (this.status = status) });
  #subscription: Subscription<unknown> | null = null;
  #isClosed = false;

  constructor(name: string, transport: TransportName | null) {
    this.#topic = name;
    this.feed = new Feed(names(name));
    if (transport) this.use(transport);
    topic(name).then(
      (known) => this.#subscribe(beginning(known), known?.position ?? null),
      () => this.#subscribe("earliest", null),
    );
  }

  /** Changes the transport while data flows. */
  use(transport: TransportName | null): void {
    if (this.status.state !== "closed") this.#session.use(transport === "forever-frame" ? foreverFrame : transport);
  }

  /** Events between here and the newest one; `null` if that cannot be known. */
  async lag(): Promise<number | null> {
    if (this.failure !== null) return null;
    const newest = (await topic(this.#topic))?.position;
    const here = this.#subscription?.position;
    return newest && here ? between(here, newest, this.feed.isSparse) : null;
  }

  close(): void {
    this.#isClosed = true;
    this.#session.close();
  }

  /** @param head - where the topic was before. */
  #subscribe(from: Cursor, head: string | null): void {
    if (this.#isClosed) return;
    this.#receive(from, head).catch((error: unknown) => (this.failure = sentence(error)));
  }

  /** Until it is closed. @throws ThalwegError when the server, or the name, allows no more. */
  async #receive(from: Cursor, head: string | null): Promise<void> {
    // A page that has fallen off the history wants what is new, not what is old.
    this.#subscription = this.#session.subscribe(this.#topic, { from, policy: "latest" });
    for await (const batch of this.#subscription) {
      this.feed.take(batch, Date.now(), head !== null && isBefore(batch.position, head));
    }
  }
}

/** Where to begin, so that there is something to see and nothing that would make room at once. */
export function beginning(known: Topic | null): Cursor {
  const [epoch, offset] = known?.position.split(".") ?? [];
  if (!known || known.events <= FEW) return "earliest";
  return `${epoch}.${Number(offset) - Math.min(BEFORE, Math.floor(known.events / 2))}`;
}

/** Events from one position to another; `null` if positions do not say it. */
export function between(from: string, to: string, isSparse: boolean): number | null {
  const [epoch, offset] = from.split(".");
  const [otherEpoch, otherOffset] = to.split(".");
  const count = Math.max(0, Number(otherOffset) - Number(offset));
  return epoch !== otherEpoch || (isSparse && count > 0) ? null : count;
}

/** Whether a position is another or what comes before it. */
function isBefore(position: string, other: string): boolean {
  const [epoch, offset] = position.split(".");
  const [otherEpoch, otherOffset] = other.split(".");
  return epoch === otherEpoch && Number(offset) <= Number(otherOffset);
}
