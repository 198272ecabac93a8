/**
 * Round trips from a page: the subject sends a Runner, the page acks it with the same object, and the subject sends the
 * next one. A WebSocket carries both directions; over other transports an ack is a separate request. Thalweg takes acks
 * as events of another topic.
 *
 * @typedef {{ transport: string, dialect: string, topic: string }} Talk - `dialect` is the subject's. Thalweg creates
 *   the Runners. With other subjects the page sends them, and they are echoed.
 */

/** Approximate size of a Runner of the subject. */
const RUNNER_BYTES = 200;
/** The close code of a document that has grown large. The page then loads the document again, at its cursor. */
const RELOAD = 4003;

class RoundTrips {
  /** @param {Talk} talk */
  constructor(talk) {
    this.talk = talk;
    this.makesRunners = talk.dialect === "thalweg";
    this.ledger = new Ledger();
    this.url = `${ORIGIN}${TOPICS[talk.dialect]}${talk.topic}`;
    this.position = "";
    this.sentMs = 0;
    this.why = "";
    /** @type {number[]} Duration of each trip, ms. */
    this.eachMs = [];
    this.wanted = 0;
    /** @type {(value?: unknown) => void} */
    this.done = () => {};
    /** @type {(runner: any) => void} Acks a Runner. */
    this.ack = () => {};
    /** @type {() => void} Called when a Runner has arrived and no more trips are requested. */
    this.next = () => {};
    this.confirmed = false;
    /** @type {(() => void) | undefined} Reloads a document. */
    this.reload = undefined;
    /** The previous ack, if acks are requests: at most one is in flight. @type {Promise<unknown>} */
    this.acked = Promise.resolve();
  }

  async open() {
    const { makesRunners } = this;
    const { transport, dialect, topic } = this.talk;
    const receive = (/** @type {string} */ message) => this.receive(message);
    const ended = (/** @type {string} */ why) => {
      this.ledger.cut();
      this.why ||= why;
      this.done();
    };
    if (dialect === "socketio") return this.bySocketIo(topic, ended);
    const earliest = makesRunners ? `${this.url}?cursor=earliest` : this.url;
    if (transport === "websocket") {
      const socket = new WebSocket(earliest.replace("http", "ws"));
      socket.onmessage = ({ data }) => receive(data);
      socket.onclose = ({ code, reason }) => ended(`closed: ${code} ${reason}`);
      this.ack = (runner) =>
        socket.send(
          JSON.stringify(makesRunners ? { command: "publish", topic: `${topic}/acks`, event: runner } : runner),
        );
      if (!makesRunners) socket.onopen = () => this.arm(runner(0));
      return;
    }
    this.ack = (runner) => this.post(runner);
    if (transport === "long-polling") this.poll(earliest, 0).catch((error) => ended(String(error)));
    else if (transport === "forever-frame") this.frame(earliest);
    else TRANSPORTS[transport]?.(earliest, { stands() {}, text: receive, ended });
  }

  /** Connects with Socket.IO: a message returns as its acknowledgement. @param {string} topic @param {(why: string) => void} ended */
  async bySocketIo(topic, ended) {
    const socket = await socketIoClient(topic);
    for (const kind of ["connect_error", "disconnect"]) {
      socket.on(kind, (/** @type {unknown} */ why) => ended(`${kind}: ${why}`));
    }
    this.ack = (said) =>
      socket.emit("echo", said, (/** @type {any} */ received) => this.finishTrip(received, runner(received.id + 1)));
    socket.on("connect", () => this.arm(runner(0)));
  }

  /** Makes this number of further trips. @param {number} count */
  async run(count) {
    this.eachMs = [];
    this.wanted = count;
    const done = new Promise((resolve) => (this.done = resolve));
    this.next();
    await done;
    const { eachMs, why } = this;
    return { each: eachMs, counts: this.ledger.counts, why };
  }

  /** Acks a Runner: at once if a trip is requested, otherwise with the next request. @param {any} runner */
  arm(runner) {
    const go = () => {
      this.next = () => {};
      this.acked.then(() => {
        this.sentMs = performance.now();
        this.ack(runner);
      });
    };
    if (this.eachMs.length < this.wanted) return go();
    this.next = go;
    this.done();
  }

  /** @param {string} message */
  receive(message) {
    if (message === "") return;
    const received = JSON.parse(message);
    // Thalweg answers each ack that is a command.
    if (received.heartbeat || (this.makesRunners && received.answer)) return;
    if (received.error) {
      this.why ||= `an ack was refused: ${received.error.message}`;
      return this.done();
    }
    if (received.close) {
      if (received.close.code === RELOAD) this.reload?.();
      return;
    }
    const { position, events } = received;
    this.position = position ?? this.position;
    if (!this.makesRunners) {
      // The connection has no confirmation. Messages are echoed.
      if (received.id !== undefined) this.finishTrip(received, runner(received.id + 1));
      return;
    }
    if (!events) return this.ledger.corrupt();
    // This is the confirmation. Its ack makes the subject send the first Runner.
    if (events.length === 0 && !this.confirmed) {
      this.confirmed = true;
      return this.arm(runner(0));
    }
    for (const event of events) this.finishTrip(event, event);
  }

  /**
   * @param {any} received
   * @param {any} next - the message to send in response.
   */
  finishTrip(received, next) {
    if (this.ledger.arrived(0, received.id, received.id) === 0) return;
    this.eachMs.push(performance.now() - this.sentMs);
    this.arm(next);
  }

  /** @param {any} runner */
  post(runner) {
    const wanted = { method: "POST", body: JSON.stringify(runner), headers: { "Content-Type": "application/json" } };
    this.acked = fetch(`${this.url}/acks`, wanted).then(async (answer) => {
      if (!answer.ok) this.why ||= `an ack was answered with ${answer.status}: ${await answer.text()}`;
      else await answer.arrayBuffer();
      if (this.why) this.done();
    });
  }

  /** Polls repeatedly, each time from the last message of the previous poll on. @param {string} first @param {number} wait */
  async poll(first, wait) {
    let url = `${first}&transport=long-polling&wait=${wait}`;
    for (;;) {
      const answer = await fetch(url, { cache: "no-store" });
      const text = await answer.text();
      if (!answer.ok) throw new Error(`a poll was answered with ${answer.status}: ${text}`);
      for (const line of text.split("\n")) this.receive(line);
      url = `${this.url}?transport=long-polling&cursor=${this.position}&wait=25s`;
    }
  }

  /** @param {string} first */
  frame(first) {
    let frame = document.createElement("iframe");
    const load = (/** @type {string} */ url) => {
      frame.remove();
      frame = document.createElement("iframe");
      frame.hidden = true;
      frame.src = `${url}&transport=forever-frame`;
      document.body.append(frame);
    };
    Object.assign(globalThis, {
      thalweg: (/** @type {string} */ text, /** @type {Window} */ source) => {
        // Messages of an old document are ignored.
        if (source === frame.contentWindow) this.receive(text);
      },
    });
    this.reload = () => load(`${this.url}?cursor=${this.position}`);
    load(first);
  }
}

/** @param {number} id */
function runner(id) {
  const head = { id, name: `Runner ${id}`, pad: "" };
  const short = RUNNER_BYTES - JSON.stringify(head).length;
  return { ...head, pad: "x".repeat(short) };
}
