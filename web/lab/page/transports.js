/**
 * A connection of each transport, as a page without a library would open it; of Socket.IO, as its own
 * client does. Each returns what closes it.
 *
 * @typedef {object} Ear
 * @property {() => void} stands - the transport is open.
 * @property {(message: string) => void} text - a message.
 * @property {(rows: any[], bytes: number) => void} [rows] - rows that a client's library has read, and the
 *   bytes of the message that they came in.
 * @property {(bytes: Uint8Array) => void} [bytes] - what of a streamed body has come, as it is;
 *   without it, it is taken apart into lines.
 * @property {(why: string) => void} ended - nothing more comes.
 */

/** Memory that a body is read into, bytes: used again and again. */
const PIECE_BYTES_MAX = 256 * 1024;
/** A body is read for so long in one go, ms. */
const TURN_MS = 5;

/** Where topics are, by what the subject speaks. @type {Record<string, string>} */
const TOPICS = { thalweg: "/v1/topics/", limit: "/v1/topics/", raw: "/" };

/**
 * A connection that subscribes to a topic.
 * @param {{ transport: string, dialect: string, topic: string }} wanted
 * @param {Ear} ear
 * @returns {() => void} what closes it.
 */
function subscribed({ transport, dialect, topic }, ear) {
  if (dialect === "socketio") return socketIo(topic, ear);
  const open = /** @type {(typeof TRANSPORTS)[string]} */ (TRANSPORTS[transport]);
  return open(`${ORIGIN}${TOPICS[dialect]}${topic}`, ear);
}

/** @type {Record<string, (url: string, ear: Ear) => () => void>} */
const TRANSPORTS = {
  websocket(url, ear) {
    const socket = new WebSocket(url.replace("http", "ws"));
    socket.onopen = ear.stands;
    socket.onmessage = ({ data }) => ear.text(data);
    socket.onclose = ({ code, reason }) => ear.ended(`closed: ${code} ${reason}`);
    return () => {
      socket.onclose = null;
      socket.close();
    };
  },

  sse(url, ear) {
    const source = new EventSource(url);
    const hear = (/** @type {MessageEvent} */ { data }) => ear.text(data);
    source.onopen = ear.stands;
    source.onmessage = hear;
    for (const kind of ["gap", "end", "close"]) source.addEventListener(kind, hear);
    // It would come back by itself, and so hide what was cut.
    source.onerror = () => {
      source.close();
      ear.ended("the event source was cut");
    };
    return () => source.close();
  },

  "http-streaming"(url, ear) {
    const stop = new AbortController();
    const take = ear.bytes ?? lines(ear.text);
    streamed(url, "application/x-ndjson", stop.signal, ear.stands, take).then(
      () => ear.ended("the response ended"),
      (error) => stop.signal.aborted || ear.ended(String(error)),
    );
    return () => stop.abort();
  },
};

/**
 * Subscribes over a WebSocket by the client that Socket.IO's server serves.
 * @param {string} topic
 * @param {Ear} ear
 */
function socketIo(topic, ear) {
  let close = () => {};
  let isClosed = false;
  socketIoClient(topic).then(
    (socket) => {
      let bytes = 0;
      // A packet of Engine.IO has one byte before its data. What it carries is handed on before the next one comes.
      socket.io.engine.on("data", (/** @type {string} */ data) => (bytes += 1 + data.length));
      socket.on("event", (/** @type {string} */ _, /** @type {any[]} */ rows) => {
        ear.rows?.(rows, bytes);
        bytes = 0;
      });
      socket.on("connect", ear.stands);
      for (const kind of ["connect_error", "disconnect"]) {
        socket.on(kind, (/** @type {unknown} */ why) => isClosed || ear.ended(`${kind}: ${why}`));
      }
      close = () => socket.close();
    },
    (error) => ear.ended(String(error)),
  );
  return () => {
    isClosed = true;
    close();
  };
}

/**
 * A connection of its own, which does not come back by itself: that would hide what was cut.
 * @param {string} topic - in the query, as the subject has it.
 * @returns {Promise<any>}
 */
async function socketIoClient(topic) {
  const { io } = await imported("/socket.io/socket.io.esm.min.js", "the subject serves no client of Socket.IO");
  return io(ORIGIN, { transports: ["websocket"], query: { topic }, forceNew: true, reconnection: false });
}

/**
 * Reads a body to its end.
 * @param {string} url
 * @param {string} type
 * @param {AbortSignal} signal
 * @param {() => void} stands
 * @param {(bytes: Uint8Array) => void} take
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
 * Lets others have their turn: what has come already is read without the event loop, and nobody else
 * would ever run where more and more comes.
 * @returns {Promise<void>}
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

/**
 * Takes bytes apart into lines.
 * @param {(line: string) => void} hear
 * @returns {(bytes: Uint8Array) => void}
 */
function lines(hear) {
  const decoder = new TextDecoder();
  let line = "";
  // Each line is decoded by itself: one that was cut out of a longer text would keep all of that.
  return (bytes) => {
    let begin = 0;
    for (;;) {
      const end = bytes.indexOf(10, begin);
      if (end < 0) {
        line += decoder.decode(bytes.subarray(begin), { stream: true });
        return;
      }
      hear(line + decoder.decode(bytes.subarray(begin, end)));
      line = "";
      begin = end + 1;
    }
  };
}
