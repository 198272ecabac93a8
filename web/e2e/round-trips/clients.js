/**
 * The two clients of the measurement, in a page or in Node. The server sends a Runner, the client acks it, and the
 * server sends the next one.
 *
 * @typedef {"WebSockets" | "ServerSentEvents" | "LongPolling"} Transport - as SignalR names them.
 * @typedef {{ trips(count: number): Promise<number[]>, close(): unknown }} Client - `trips` returns milliseconds.
 */

const TOPIC = "bench/0";

/** @type {Record<Transport, string>} */
const NAMES = { WebSockets: "websocket", ServerSentEvents: "sse", LongPolling: "long-polling" };

/** @param {() => void} ack - acks the newest Runner; the first ack has none. */
function counter(ack) {
  /** @type {number[]} */
  let each = [];
  let wanted = 0;
  let sentMs = 0;
  /** @type {(each: number[]) => void} */
  let done = () => {};
  const next = () => {
    sentMs = performance.now();
    ack();
  };
  return {
    arrived() {
      each.push(performance.now() - sentMs);
      if (each.length < wanted) next();
      else done(each);
    },
    /** @param {number} count @returns {Promise<number[]>} */
    trips(count) {
      each = [];
      wanted = count;
      return new Promise((resolve) => {
        done = resolve;
        next();
      });
    },
  };
}

/** @param {any} thalweg - the SDK. @param {string} url @param {Transport} transport @returns {Promise<Client>} */
async function sdkClient(thalweg, url, transport) {
  /** @type {(value?: unknown) => void} */
  let isOpen = () => {};
  const open = new Promise((resolve) => (isOpen = resolve));
  const session = thalweg.connect(url, {
    transports: [NAMES[transport]],
    onStatus: (/** @type {any} */ { state }) => state === "open" && isOpen(),
  });
  const subscription = session.subscribe(TOPIC, { from: "earliest" }, () => counted.arrived());
  const counted = counter(() => subscription.ack());
  await open;
  return { trips: counted.trips, close: () => session.close() };
}

/** @param {any} signalR - the client. @param {string} url @param {Transport} transport @returns {Promise<Client>} */
async function signalrClient(signalR, url, transport) {
  const connection = new signalR.HubConnectionBuilder()
    .withUrl(new URL("hub", url).href, { transport: signalR.HttpTransportType[transport], withCredentials: false })
    .configureLogging(signalR.LogLevel.Error)
    .build();
  let position = "";
  const counted = counter(() => connection.send("Ack", TOPIC, position));
  const confirmed = new Promise((resolve) => {
    connection.on("Events", (/** @type {any} */ message) => {
      position = message.position;
      if (message.events.length > 0) counted.arrived();
      else resolve(undefined);
    });
  });
  await connection.start();
  await connection.invoke("Subscribe", TOPIC, "earliest");
  await confirmed;
  return { trips: counted.trips, close: () => connection.stop() };
}

/** @type {Record<string, (module: any, url: string, transport: Transport) => Promise<Client>>} */
export const CLIENTS = { sdk: sdkClient, signalr: signalrClient };
