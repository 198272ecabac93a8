/** A message about a topic becomes the batch of what is new in it. */

import type { Connection } from "./connection.js";
import { advance } from "./cursor.js";
import { safely } from "./errors.js";
import type { Settings } from "./options.js";
import type { Owner, SharedSubscription } from "./sharing.js";
import type { Ended, Message } from "./wire.js";

/** A session that receives messages, and not batches of a Worker. @internal */
export interface Receiver extends Owner {
  readonly settings: Settings;
  /** The connection in use. */
  connection(): Connection | null;
  /** Something else is wanted of it. */
  changed(): void;
  /** Patches are of no use: from here on documents come whole, over another connection. */
  takeWhole(shared: SharedSubscription): null;
  /** The server has ended the topic. */
  ended(shared: SharedSubscription, end: Ended): void;
}

type Deltas = Pick<typeof import("./deltas.js"), "made">;

/** The module that makes versions of patches: loaded when the first patch has come. */
let deltas: Deltas | undefined;

/** @internal */
export function receive(shared: SharedSubscription, message: Message, bytes: number, owner: Receiver): void {
  if (shared.held) shared.held.push([message, bytes]);
  else if (message.end) owner.ended(shared, message.end);
  else if (shared.isOver) owner.processed(shared, bytes);
  else if (message.patch && !deltas) hold(shared, message, bytes, owner);
  else {
    let fresh = advance(shared, message);
    if (fresh && message.patch) fresh = (deltas as Deltas).made(shared, message, owner);
    const { topic, cursor: position } = shared;
    if (fresh) shared.take({ topic, position, ...fresh, bytes });
    else {
      if (!message.patch) shared.confirm();
      // Repeats fill a window as well.
      owner.processed(shared, bytes);
    }
  }
}

/**
 * From this message on, all wait until patches can be applied. They count as not processed, which
 * bounds them.
 */
function hold(shared: SharedSubscription, message: Message, bytes: number, owner: Receiver): void {
  const held: [Message, number][] = [[message, bytes]];
  shared.held = held;
  // A page may have been given the core alone.
  void import("./deltas.js")
    .catch((): Deltas => ({ made: (it, _, owner) => owner.takeWhole(it) }))
    .then((its) => {
      deltas = its;
      shared.held = undefined;
      for (const it of held) safely(() => receive(shared, ...it, owner));
    });
}
