// Drives an unmodified @microsoft/signalr by lines of JSON: commands on stdin, what the client says on stdout.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, url, transport, token] = process.argv.slice(2);
const { HubConnectionBuilder, HttpTransportType, LogLevel } = createRequire(`${folder}/`)("@microsoft/signalr");
const { follow } = await import(pathToFileURL(`${folder}/signalr-cursor.js`));

const say = (kind, value = null) => console.log(JSON.stringify([kind, value]));
const sayError = (kind) => (error) => say(kind, String(error?.message ?? error));

const connection = new HubConnectionBuilder()
  .withUrl(url, { transport: HttpTransportType[transport], ...(token && { accessTokenFactory: () => token }) })
  .withAutomaticReconnect({ nextRetryDelayInMilliseconds: () => 50 })
  .configureLogging(LogLevel.None)
  .build();
connection.onreconnecting(sayError("reconnecting"));
connection.onreconnected(() => say("reconnected"));
connection.onclose((error) => say("closed", error ? String(error.message) : null));
/** By topic, the function that ends a subscription whose messages are items. */
const ends = new Map();

for (const target of ["Events", "Gap", "End"]) {
  connection.on(target, (message) => ends.has(message.topic) || say(target, message));
}

const DO = {
  start: () => connection.start().then(() => say("started"), sayError("failed")),
  stop: () => connection.stop(),
  invoke: (method, ...args) => connection.invoke(method, ...args).then((value) => say("result", value ?? null), sayError("error")),
  send: (method, ...args) => connection.send(method, ...args),
  follow: (topic, cursor) => {
    const onMessage = (message) => say("item", message);
    ends.set(topic, follow(connection, topic, onMessage, { cursor, onError: sayError("error") }));
  },
  stream: (...args) => {
    const next = (message) => say("item", message);
    const complete = () => {
      ends.delete(args[1]);
      say("complete");
    };
    const stream = connection.stream(...args).subscribe({ next, complete, error: sayError("error") });
    // A second stream of a topic is refused.
    if (!ends.has(args[1])) ends.set(args[1], () => stream.dispose());
  },
  // Reads a stream of a topic, and reads the next one from the last position after each reconnect.
  read: (topic) => {
    let cursor = "latest";
    const next = (message) => {
      cursor = message.position ?? cursor;
      say("item", message);
    };
    const read = () =>
      connection
        .stream("Subscribe", topic, cursor)
        .subscribe({ next, complete: () => say("complete"), error: sayError("broken") });
    connection.onreconnected(read);
    read();
  },
  cancel: (topic) => ends.get(topic)(),
};

for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...args] = JSON.parse(line);
  await DO[name](...args);
}
process.exit();
