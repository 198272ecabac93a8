/** Commands and their answers: over a connection that goes both ways, or by `POST`. */

import type { Connection } from "./connection.js";
import { ThalwegError } from "./errors.js";
import type { Post } from "./post.js";
import { type Answer, type Message, type Position, type Refusal, topicPath } from "./wire.js";

/** Where the server has appended what was published. */
export interface Published {
  /** The topic. */
  topic: string;
  /** The position of the last of the events. */
  position: Position;
  /** The offset of the first of them. */
  first: number;
  /** How many events there were. */
  count: number;
}

/** A command that is not answered yet. */
interface Pending {
  readonly connection: Connection;
  resolve(answer: Answer): void;
  reject(error: ThalwegError): void;
}

/** @internal */
export interface Commands {
  /** Whether a command waits for its answer on a connection. */
  isPending(): boolean;
  /** Carries out a command, whichever way there is. */
  execute(command: string, members: object): Promise<Answer | undefined>;
  publish(topic: string, events: readonly unknown[]): Promise<Published>;
  /** Sends a command over a connection, and waits for the answer. */
  send(connection: Connection, command: string, members: object): Promise<Answer>;
  /** A message has come: it may be an answer, or a refusal. */
  received(message: Message): void;
  /** Nobody will answer what was sent over this connection. */
  lost(connection: Connection): void;
}

/**
 * @param twoWay - the connection, if commands can go over it.
 * @param timeoutMs - how long a `POST` may be unanswered.
 * @internal
 */
export function commands(twoWay: () => Connection | null, post: Post, timeoutMs: number): Commands {
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
    async execute(command, members) {
      const connection = twoWay();
      if (connection) return send(connection, command, members);
      const body = JSON.stringify({ command, ...members });
      return (await post({ path: "v1/commands", body, timeoutMs })).answer;
    },
    async publish(topic, events) {
      const connection = twoWay();
      if (connection) return (await send(connection, "publish", { topic, events })) as Published;
      const path = topicPath(topic);
      const body = events.map((event) => JSON.stringify(event)).join("\n");
      const how = events.length === 1 ? { key: randomKey() } : { type: "application/x-ndjson" };
      return (await post({ path, body, timeoutMs, ...how })) as Published;
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
        command.reject(new ThalwegError("unanswered", "it broke before the answer came"));
      }
    },
  };
}

/** What no other publish has. A page that is not secure has no `crypto.randomUUID`. */
function randomKey(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join("-");
}
