/**
 * The two clients of the measurement, in a page or in Node. The server sends a Runner, the client acks it with the same
 * object, which it publishes to another topic, and the server sends the next one. Both wait until the server has
 * confirmed the subscription, and both check that each Runner arrives alone and in order, over the transport that was
 * asked for.
 *
 * @typedef {"WebSockets" | "ServerSentEvents" | "LongPolling"} Transport - as SignalR names them.
 * @typedef {{ trips(count: number): Promise<number[]>, close(): unknown }} Client - `trips` returns milliseconds. It
 *   rejects if a Runner is missing, or if the connection has ended.
 */

const TOPIC = "bench/0";
const ACKS = "bench/0/acks";
/** The first ack, as large as those of Runners. */
const FIRST = { id: 0, name: "Runner 0", pad: "x".repeat(160) };

/** The name of a transport in the SDK, and its class in SignalR's client. @type {Record<Transport, [string, string]>} */
const NAMES = {
  WebSockets: ["websocket", "WebSocketTransport"],
  ServerSentEvents: ["sse", "ServerSentEventsTransport"],
  LongPolling: ["long-polling", "LongPollingTransport"],
};

/** @param {string | undefined} used @param {string} wanted */
function expectTransport(used, wanted) {
  if (used !== wanted) throw new Error(`the connection uses ${used} instead of ${wanted}`);
}

/** @param {(runner: { id: number }) => Promise<unknown>} ack */
function counter(ack) {
  /** @type {number[]} */
  let each = [];
  let wanted = 0;
  let sentMs = 0;
  let id = 0;
  /** @type {(each: number[]) => void} */
  let done = () => {};
  /** @type {Error | null} */
  let problem = null;
  /** @type {(error: Error) => void} */
  let failed = () => {};
  const fail = (/** @type {string} */ why) => {
    problem = new Error(why);
    failed(problem);
  };
  let newest = FIRST;
  const next = () => {
    sentMs = performance.now();
    ack(newest).catch((error) => fail(`an ack failed: ${error}`));
  };
  return {
    /** @param {readonly any[]} events */
    arrived(events) {
      each.push(performance.now() - sentMs);
      id++;
      newest = events[0];
      if (events.length !== 1 || events[0]?.id !== id) {
        fail(`Runner ${id} is missing: received ${events.map((event) => event.id)}`);
      } else if (each.length < wanted) next();
      else done(each);
    },
    fail,
    /** @param {number} count @returns {Promise<number[]>} */
    trips(count) {
      each = [];
      wanted = count;
      return new Promise((resolve, reject) => {
        if (problem) throw problem;
        done = resolve;
        failed = reject;
        next();
      });
    },
  };
}

/** @param {any} thalweg - the SDK. @param {string} url @param {Transport} transport @returns {Promise<Client>} */
async function sdkClient(thalweg, url, transport) {
  const [name] = NAMES[transport];
  /** @type {(used: string) => void} */
  let isOpen = () => {};
  /** @type {Promise<string>} */
  const open = new Promise((resolve) => (isOpen = resolve));
  let wasOpened = false;
  const session = thalweg.connect(url, {
    transports: [name],
    onStatus: (/** @type {any} */ { state, transport, reason }) => {
      if (wasOpened) counted.fail(`the connection is ${state}: ${reason}`);
      if (state !== "open") return;
      wasOpened = true;
      isOpen(transport);
    },
  });
  const subscription = session.subscribe(TOPIC, { from: "earliest" }, (/** @type {any} */ { events, gap }) => {
    if (gap) counted.fail("the SDK reports a gap");
    counted.arrived(events);
  });
  const counted = counter((runner) => session.publish(ACKS, runner));
  expectTransport(await open, name);
  // The position of a subscription is known when the server has confirmed it.
  while (subscription.position === null) await new Promise((go) => setTimeout(go, 1));
  return { trips: counted.trips, close: () => session.close() };
}

/** @param {any} signalR - the client. @param {string} url @param {Transport} transport @returns {Promise<Client>} */
async function signalrClient(signalR, url, transport) {
  const connection = new signalR.HubConnectionBuilder()
    .withUrl(new URL("hub", url).href, { transport: signalR.HttpTransportType[transport], withCredentials: false })
    .configureLogging(signalR.LogLevel.Error)
    .build();
  const counted = counter((runner) => connection.invoke("Publish", ACKS, runner));
  connection.onclose((/** @type {unknown} */ error) => counted.fail(`the connection is closed: ${error}`));
  const confirmed = new Promise((resolve) => {
    connection.on("Events", (/** @type {any} */ message) => {
      if (message.events.length > 0) counted.arrived(message.events);
      else resolve(undefined);
    });
  });
  await connection.start();
  expectTransport(connection.connection.transport.constructor.name, NAMES[transport][1]);
  await connection.invoke("Subscribe", TOPIC, "earliest");
  await confirmed;
  return { trips: counted.trips, close: () => connection.stop() };
}

/**
 * `again` is the SDK a second time: the difference between the two is the noise.
 *
 * @type {Record<string, (module: any, url: string, transport: Transport) => Promise<Client>>}
 */
export const CLIENTS = { sdk: sdkClient, again: sdkClient, signalr: signalrClient };
