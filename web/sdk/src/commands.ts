/** Commands and their answers, over a two-way connection or by `POST`. */

import type { Connection } from "./connection.js";
import { ThalwegError } from "./errors.js";
import { randomKey, type Settings } from "./options.js";
import { type Post, poster } from "./post.js";
import { type Answer, type Message, type Position, quantity, type Refusal, topicPath } from "./wire.js";

/** A topic to publish to, and on a keyed topic the key, the condition and the lifetime of the event. */
export interface PublishTarget {
  /** The topic. */
  topic: string;
  /** The key: at most 256 bytes of UTF-8, without control characters. Omit it if the server takes the key from the event. */
  key?: string;
  /**
   * The condition: the key is `new`, it `exists`, or its newest event has this position. Otherwise `publish` throws
   * `condition_failed`, and {@link ThalwegError.newest} has the newest event.
   */
  if?: "new" | "exists" | Position;
  /** The time after which the server removes the key, unless it gets another event before then, ms. */
  ttl?: number;
}

/** The position of published events. */
export interface Published {
  /** The topic. */
  topic: string;
  /** The position of the last event. */
  position: Position;
  /** The offset of the first event. */
  first: number;
  /** The number of events. */
  count: number;
}

interface Pending {
  readonly connection: Connection;
  resolve(answer: Answer): void;
  reject(error: ThalwegError): void;
}

/** @internal */
export interface Commands {
  isPending(): boolean;
  readonly post: Post;
  /** Executes a command, over a two-way connection if there is one. */
  execute(command: string, members: object): Promise<Answer | undefined>;
  publish(target: PublishTarget, events: readonly unknown[]): Promise<Published>;
  send(connection: Connection, command: string, members: object): Promise<Answer>;
  /** Handles a message that may be an answer or a refusal. */
  received(message: Message): void;
  /** Rejects the commands in flight on this connection, which is closed. */
  lost(connection: Connection): void;
}

/** @param twoWay - returns the connection for commands, if there is one. @internal */
export function commands(settings: Settings, twoWay: () => Connection | null): Commands {
  const post = poster(settings);
  const pending = new Map<unknown, Pending>();
  let last = 0;

  const send = (connection: Connection, command: string, members: object): Promise<Answer> =>
    new Promise((resolve, reject) => {
      connection.send(JSON.stringify({ command, id: ++last, ...members }));
      pending.set(last, { connection, resolve, reject });
    });

  return {
    isPending: () => pending.size > 0,
    send,
    post,
    async execute(command, members) {
      const connection = twoWay();
      if (connection) return send(connection, command, members);
      const body = JSON.stringify({ command, ...members });
      return (await post({ path: "v1/commands", body })).answer;
    },
    async publish({ topic, ttl = 0, ...others }, events) {
      const terms = { ...others, ttl: quantity(ttl, "ms") };
      const connection = twoWay();
      if (connection) return (await send(connection, "publish", { topic, ...terms, events })) as Published;
      const query = new URLSearchParams();
      for (const [name, value] of Object.entries(terms)) if (value !== undefined) query.set(name, value);
      const path = topicPath(topic) + (`${query}` && `?${query}`);
      const body = events.map((event) => JSON.stringify(event)).join("\n");
      const how = events.length === 1 ? { key: randomKey() } : { type: "application/x-ndjson" };
      return (await post({ path, body, ...how })) as Published;
    },
    received({ answer, error, newest }) {
      const id = (answer ?? error)?.id;
      const command = pending.get(id);
      pending.delete(id);
      if (answer) command?.resolve(answer);
      else command?.reject(new ThalwegError((error as Refusal).code, (error as Refusal).message, null, newest));
    },
    lost(connection) {
      for (const [id, command] of pending) {
        if (command.connection !== connection) continue;
        pending.delete(id);
        command.reject(new ThalwegError("unanswered", "the connection broke before the answer arrived"));
      }
    },
  };
}
