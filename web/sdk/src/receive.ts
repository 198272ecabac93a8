/** Converts a message about a topic into a batch of its new events. */

import { advance, type NewEvents } from "./cursor.js";
import type { PatchOwner } from "./deltas.js";
import { safely, ThalwegError } from "./errors.js";
import type { MapOwner } from "./keyed.js";
import type { Flow, HeldMessage, Owner, SharedSubscription } from "./sharing.js";
import type { Ended, Message } from "./wire.js";

/** A session that receives messages; with a Worker, the session in the Worker. @internal */
export interface Receiver extends Owner, PatchOwner, MapOwner {
  readonly flow: Flow;
  ended(shared: SharedSubscription, end: Ended): void;
}

type Deltas = Pick<typeof import("./deltas.js"), "made">;

type Keyed = Pick<typeof import("./keyed.js"), "staged">;

/** The module that applies patches, loaded with the first patch. */
let deltas: Deltas | undefined;

/** The module for maps, loaded with the first message for one. */
let keyed: Keyed | undefined;

/** @internal */
export function receive(shared: SharedSubscription, message: Message, bytes: number, owner: Receiver): void {
  const { state, options } = shared;
  if (typeof state === "object") state.push([message, bytes]);
  else if (message.end) owner.ended(shared, message.end);
  else if (state === "closed") owner.flow.processed(shared, bytes);
  else if (options.isMap ? !keyed : message.patch && !deltas) hold(shared, [message, bytes], owner);
  else {
    let fresh = advance(shared, message);
    if (fresh && message.patch) fresh = (deltas as Deltas).made(shared, message, owner);
    const changes = options.isMap ? (keyed as Keyed).staged(shared, message, fresh, bytes, owner) : fresh;
    const { topic, cursor: position } = shared;
    if (changes) shared.take({ topic, position, ...(changes as NewEvents), bytes });
    else {
      if (!message.patch && position !== "latest") shared.confirm();
      // Repeated events use up the window, too.
      owner.flow.processed(shared, bytes);
    }
  }
}

/** Holds this message and all further ones until the module for them is loaded or known to be missing. */
function hold(shared: SharedSubscription, first: HeldMessage, owner: Receiver): void {
  const held = [first];
  shared.state = held;
  // A site may serve only `thalweg.js`.
  const module = shared.options.isMap
    ? import("./keyed.js").then(
        (module) => void (keyed = module),
        (error) => owner.refused(shared, new ThalwegError("no_module", `${error}`)),
      )
    : import("./deltas.js")
        .catch((): Deltas => ({ made: (shared, _, owner) => owner.takeWhole(shared) }))
        .then((module) => void (deltas = module));
  void module.then(() => {
    // The page may have left the topic in the meantime: held messages are then dropped.
    if (shared.state !== "closed") shared.state = "open";
    for (const message of held) safely(() => receive(shared, ...message, owner));
  });
}
