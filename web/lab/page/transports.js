/**
 * Connections over each transport, without a library; for Socket.IO, with its own client. Each function returns a
 * function that closes the connection.
 *
 * @typedef {object} Handlers
 * @property {() => void} stands - the transport is open.
 * @property {(message: string) => void} text - a message.
 * @property {(rows: any[], bytes: number) => void} [rows] - parsed rows, and the size of their message.
 * @property {(bytes: Uint8Array) => void} [bytes] - the next bytes of a body. Without it, the body is split into lines.
 * @property {(why: string) => void} ended - the connection has ended.
 */

/** Size of the reused memory for reading a body, bytes. */
const PIECE_BYTES_MAX = 256 * 1024;
/** Time that a body is read in one task, ms. */
const TURN_MS = 5;

/** Paths of topics, by dialect. @type {Record<string, string>} */
const TOPICS = { thalweg: "/v1/topics/", limit: "/v1/topics/", raw: "/" };

/**
 * @param {{ transport: string, dialect: string, topic: string }} wanted @param {Handlers} handlers
 * @returns {() => void} closes the connection.
 */
function subscribed({ transport, dialect, topic }, handlers) {
  if (dialect === "socketio") return socketIo(topic, handlers);
  const open = /** @type {(typeof TRANSPORTS)[string]} */ (TRANSPORTS[transport]);
  return open(`${ORIGIN}${TOPICS[dialect]}${topic}`, handlers);
}

/** @type {Record<string, (url: string, handlers: Handlers) => () => void>} */
const TRANSPORTS = {
  websocket(url, handlers) {
    const socket = new WebSocket(url.replace("http", "ws"));
    socket.onopen = handlers.stands;
    socket.onmessage = ({ data }) => handlers.text(data);
    socket.onclose = ({ code, reason }) => handlers.ended(`closed: ${code} ${reason}`);
    return () => {
      socket.onclose = null;
      socket.close();
    };
  },

  sse(url, handlers) {
    const source = new EventSource(url);
    const receive = (/** @type {MessageEvent} */ { data }) => handlers.text(data);
    source.onopen = handlers.stands;
    source.onmessage = receive;
    for (const kind of ["gap", "end", "close"]) source.addEventListener(kind, receive);
    // An automatic reconnect would hide a broken connection.
    source.onerror = () => {
      source.close();
      handlers.ended("the event source was cut");
    };
    return () => source.close();
  },

  "http-streaming"(url, handlers) {
    const stop = new AbortController();
    const take = handlers.bytes ?? lines(handlers.text);
    streamed(url, "application/x-ndjson", stop.signal, handlers.stands, take).then(
      () => handlers.ended("the response ended"),
      (error) => stop.signal.aborted || handlers.ended(String(error)),
    );
    return () => stop.abort();
  },
};

/** Subscribes with the client that Socket.IO's server serves. @param {string} topic @param {Handlers} handlers */
function socketIo(topic, handlers) {
  let close = () => {};
  let isClosed = false;
  socketIoClient(topic).then(
    (socket) => {
      let bytes = 0;
      // An Engine.IO packet has one byte before its data. Its content is delivered before the next packet arrives.
      socket.io.engine.on("data", (/** @type {string} */ data) => (bytes += 1 + data.length));
      socket.on("event", (/** @type {string} */ _, /** @type {any[]} */ rows) => {
        handlers.rows?.(rows, bytes);
        bytes = 0;
      });
      socket.on("connect", handlers.stands);
      for (const kind of ["connect_error", "disconnect"]) {
        socket.on(kind, (/** @type {unknown} */ why) => isClosed || handlers.ended(`${kind}: ${why}`));
      }
      close = () => socket.close();
    },
    (error) => handlers.ended(String(error)),
  );
  return () => {
    isClosed = true;
    close();
  };
}

/**
 * Opens a separate connection without automatic reconnects, which would hide a broken connection.
 * @param {string} topic - in the query, as the subject expects it. @returns {Promise<any>}
 */
async function socketIoClient(topic) {
  const { io } = await imported("/socket.io/socket.io.esm.min.js", "does the subject serve the client of Socket.IO?");
  return io(ORIGIN, { transports: ["websocket"], query: { topic }, forceNew: true, reconnection: false });
}

/**
 * Reads a body to its end. @param {string} url @param {string} type @param {AbortSignal} signal
 * @param {() => void} stands @param {(bytes: Uint8Array) => void} take
 */
async function streamed(url, type, signal, stands, take) {
  const response = await fetch(url, { headers: { Accept: type }, signal, cache: "no-store" });
  if (!response.ok || !response.body) throw new Error(`${response.status} ${await response.text()}`);
  stands();
  const reader = response.body.getReader({ mode: "byob" });
  let memory = new ArrayBuffer(PIECE_BYTES_MAX);
  let turnMs = performance.now();
  for (;;) {
    const { done, value } = await reader.read(new Uint8Array(memory));
    if (done) return;
    take(value);
    memory = value.buffer;
    if (performance.now() - turnMs < TURN_MS) continue;
    await turn();
    turnMs = performance.now();
  }
}

/**
 * Lets other tasks run: reading data that has already arrived does not return to the event loop, so an endless stream
 * would block them. @returns {Promise<void>}
 */
function turn() {
  return new Promise((go) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      go();
    };
    port2.postMessage(null);
  });
}

/** Splits bytes into lines. @param {(line: string) => void} onLine @returns {(bytes: Uint8Array) => void} */
function lines(onLine) {
  const decoder = new TextDecoder();
  let line = "";
  // Each line is decoded separately: a substring of a longer text would keep the whole text in memory.
  return (bytes) => {
    let begin = 0;
    for (;;) {
      const end = bytes.indexOf(10, begin);
      if (end < 0) {
        line += decoder.decode(bytes.subarray(begin), { stream: true });
        return;
      }
      onLine(line + decoder.decode(bytes.subarray(begin, end)));
      line = "";
      begin = end + 1;
    }
  };
}
