/** Converts a message about a topic into a batch of its new events. */

import { advance } from "./cursor.js";
import type { PatchOwner } from "./deltas.js";
import { safely } from "./errors.js";
import type { HeldMessage, Owner, SharedSubscription } from "./sharing.js";
import type { Ended, Message } from "./wire.js";

/** A session that receives messages; with a Worker, the session in the Worker. @internal */
export interface Receiver extends Owner, PatchOwner {
  ended(shared: SharedSubscription, end: Ended): void;
}

type Deltas = Pick<typeof import("./deltas.js"), "made">;

/** The module that applies patches, loaded with the first patch. */
let deltas: Deltas | undefined;

/** @internal */
export function receive(shared: SharedSubscription, message: Message, bytes: number, owner: Receiver): void {
  const { state } = shared;
  if (typeof state === "object") state.push([message, bytes]);
  else if (message.end) owner.ended(shared, message.end);
  else if (state === "closed") owner.flow.processed(shared, bytes);
  else if (message.patch && !deltas) hold(shared, [message, bytes], owner);
  else {
    let fresh = advance(shared, message);
    if (fresh && message.patch) fresh = (deltas as Deltas).made(shared, message, owner);
    const { topic, cursor: position } = shared;
    if (fresh) shared.take({ topic, position, ...fresh, bytes });
    else {
      if (!message.patch) shared.confirm();
      // Repeated events use up the window, too.
      owner.flow.processed(shared, bytes);
    }
  }
}

/** Holds this message and all further ones until the module for patches is loaded or known to be missing. */
function hold(shared: SharedSubscription, first: HeldMessage, owner: Receiver): void {
  const held = [first];
  shared.state = held;
  // A page may serve `thalweg.js` without `deltas.js`.
  void import("./deltas.js")
    .catch((): Deltas => ({ made: (shared, _, owner) => owner.takeWhole(shared) }))
    .then((module) => {
      deltas = module;
      // The page may have left the topic in the meantime: held messages are then dropped.
      if (shared.state !== "closed") shared.state = "open";
      for (const message of held) safely(() => receive(shared, ...message, owner));
    });
}
