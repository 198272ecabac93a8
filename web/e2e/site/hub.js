// An unmodified client of SignalR, driven by the tests.

import { follow } from "/examples/signalr-cursor.js";

const { HubConnectionBuilder, HttpTransportType, LogLevel } = globalThis.signalR;

/** Kinds and values that no test has awaited yet. */
const said = [];
let wake = () => {};

function say(kind, value = null) {
  said.push([kind, value]);
  wake();
}

const sayError = (error) => say("error", String(error?.message ?? error));

let connection;
/** Topics whose messages are items. */
const followed = new Set();

globalThis.hub = {
  open: (transport, token) => {
    connection = new HubConnectionBuilder()
      .withUrl("/hub", { transport: HttpTransportType[transport], ...(token && { accessTokenFactory: () => token }) })
      .withAutomaticReconnect({ nextRetryDelayInMilliseconds: () => 50 })
      .configureLogging(LogLevel.None)
      .build();
    connection.onreconnecting(() => say("reconnecting"));
    connection.onreconnected(() => say("reconnected"));
    connection.on("Events", (message) => followed.has(message.topic) || say("events", message));
    return connection.start();
  },
  follow: (topic) => {
    followed.add(topic);
    follow(connection, topic, (message) => say("item", message), { onError: sayError });
  },
  /** Reads a stream of a topic, and reads the next one from the last position after each reconnect. */
  stream: (topic) => {
    let cursor = "latest";
    const next = (message) => {
      cursor = message.position ?? cursor;
      say("item", message);
    };
    const read = () => {
      connection
        .stream("Subscribe", topic, cursor)
        .subscribe({ next, complete: () => say("complete"), error: sayError });
    };
    connection.onreconnected(read);
    read();
  },
  invoke: (method, ...args) => connection.invoke(method, ...args).then((result) => result ?? null, String),
  next: async (kind) => {
    for (;;) {
      const at = said.findIndex(([name]) => name === kind);
      if (at >= 0) return said.splice(at, 1)[0][1];
      await new Promise((resolve) => {
        wake = resolve;
      });
    }
  },
  take: (kind) => {
    const taken = said.filter(([name]) => name === kind);
    for (const one of taken) said.splice(said.indexOf(one), 1);
    return taken.map(([, value]) => value);
  },
  stop: () => connection.stop(),
};
