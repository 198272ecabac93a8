/** Commands and their answers, over a two-way connection or by `POST`. */

import type { Connection } from "./connection.js";
import { ThalwegError } from "./errors.js";
import type { Settings } from "./options.js";
import { type Post, poster } from "./post.js";
import { type Answer, type Message, type Position, type Refusal, topicPath } from "./wire.js";

/** A key of a keyed topic. */
export interface TopicKey {
  /** The topic. */
  topic: string;
  /** The key: at most 256 bytes of UTF-8, without control characters. */
  key: string;
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
  publish(topic: string, events: readonly unknown[], key?: string): Promise<Published>;
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
    async publish(topic, events, key) {
      const connection = twoWay();
      if (connection) return (await send(connection, "publish", { topic, key, events })) as Published;
      const path = topicPath(topic) + (key === undefined ? "" : `?key=${encodeURIComponent(key)}`);
      const body = events.map((event) => JSON.stringify(event)).join("\n");
      const how = events.length === 1 ? { key: randomKey() } : { type: "application/x-ndjson" };
      return (await post({ path, body, ...how })) as Published;
    },
    received({ answer, error }) {
      const id = (answer ?? error)?.id;
      const command = pending.get(id);
      pending.delete(id);
      if (answer) command?.resolve(answer);
      else command?.reject(new ThalwegError((error as Refusal).code, (error as Refusal).message));
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

/** Returns a unique key. `crypto.randomUUID` exists only in secure contexts. */
function randomKey(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join("-");
}
