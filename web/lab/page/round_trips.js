/**
 * Round trips from a page: the subject sends a Runner, the page acks it, and only then comes the
 * next. A WebSocket carries both ways; on the others an ack is a request of its own.
 *
 * @typedef {object} Talk
 * @property {string} transport
 * @property {string} dialect - what the subject speaks. Thalweg makes the Runners; to the others the page says
 *   them, and they come back.
 * @property {string} topic
 */

/** About what a Runner of the subject's has. */
const RUNNER_BYTES = 200;
/** The last words of a document that has grown large: it is loaded again at its cursor. */
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
    /** @type {number[]} How long each took, ms. */
    this.eachMs = [];
    this.wanted = 0;
    /** @type {(value?: unknown) => void} */
    this.done = () => {};
    /** @type {(runner: any) => void} Acks a Runner. */
    this.ack = () => {};
    /** @type {() => void} Goes on when a Runner has come and no more are wanted. */
    this.next = () => {};
    this.confirmed = false;
    /** @type {(() => void) | undefined} Loads a document again. */
    this.reload = undefined;
    /** The ack before, where it is a request: a page has one under way. @type {Promise<unknown>} */
    this.acked = Promise.resolve();
  }

  /** Opens it; the first Runner comes with the ack of what confirms. */
  async open() {
    const { makesRunners } = this;
    const { transport, dialect, topic } = this.talk;
    const hear = (/** @type {string} */ message) => this.hear(message);
    const ended = (/** @type {string} */ why) => {
      this.ledger.cut();
      this.why ||= why;
      this.done();
    };
    if (dialect === "socketio") return this.bySocketIo(topic, ended);
    const earliest = makesRunners ? `${this.url}?cursor=earliest` : this.url;
    if (transport === "websocket") {
      const socket = new WebSocket(earliest.replace("http", "ws"));
      socket.onmessage = ({ data }) => hear(data);
      socket.onclose = ({ code, reason }) => ended(`closed: ${code} ${reason}`);
      this.ack = (runner) =>
        socket.send(
          makesRunners ? JSON.stringify({ command: "ack", topic, position: this.position }) : JSON.stringify(runner),
        );
      if (!makesRunners) socket.onopen = () => this.arm(runner(0));
      return;
    }
    this.ack = (runner) => this.post(runner);
    if (transport === "long-polling") this.poll(earliest, 0).catch((error) => ended(String(error)));
    else if (transport === "forever-frame") this.frame(earliest);
    else TRANSPORTS[transport]?.(earliest, { stands() {}, text: hear, ended });
  }

  /**
   * What is emitted comes back as its acknowledgement.
   * @param {string} topic
   * @param {(why: string) => void} ended
   */
  async bySocketIo(topic, ended) {
    const socket = await socketIoClient(topic);
    for (const kind of ["connect_error", "disconnect"]) {
      socket.on(kind, (/** @type {unknown} */ why) => ended(`${kind}: ${why}`));
    }
    this.ack = (said) =>
      socket.emit("echo", said, (/** @type {any} */ heard) => this.came(heard, runner(heard.id + 1)));
    socket.on("connect", () => this.arm(runner(0)));
  }

  /**
   * Makes so many more trips.
   * @param {number} count
   */
  async run(count) {
    this.eachMs = [];
    this.wanted = count;
    const done = new Promise((resolve) => (this.done = resolve));
    this.next();
    await done;
    const { eachMs, why } = this;
    return { each: eachMs, counts: this.ledger.counts, why };
  }

  /** A Runner is there to be acked: at once if a trip is wanted, else when the next is. @param {any} runner */
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
  hear(message) {
    if (message === "") return;
    const heard = JSON.parse(message);
    if (heard.heartbeat) return;
    if (heard.close) {
      if (heard.close.code === RELOAD) this.reload?.();
      return;
    }
    const { position, events } = heard;
    this.position = position ?? this.position;
    if (!this.makesRunners) {
      // Nothing confirms that it stands, and what is said comes back.
      if (heard.id !== undefined) this.came(heard, runner(heard.id + 1));
      return;
    }
    if (!events) return this.ledger.corrupt();
    // What confirms: the first Runner comes with its ack.
    if (events.length === 0 && !this.confirmed) {
      this.confirmed = true;
      return this.arm(runner(0));
    }
    for (const event of events) this.came(event, event);
  }

  /**
   * @param {any} heard
   * @param {any} next - what is to be said to it.
   */
  came(heard, next) {
    if (this.ledger.arrived(0, heard.id, heard.id) === 0) return;
    this.eachMs.push(performance.now() - this.sentMs);
    this.arm(next);
  }

  /** @param {any} runner */
  post(runner) {
    const wanted = { method: "POST", body: JSON.stringify(runner), headers: { "Content-Type": "application/json" } };
    this.acked = fetch(`${this.url}/acks`, wanted).then(async (answer) => {
      if (!answer.ok) this.why ||= `an ack was answered ${answer.status}: ${await answer.text()}`;
      else await answer.arrayBuffer();
      if (this.why) this.done();
    });
  }

  /**
   * One poll after the other, each behind the one before.
   * @param {string} first
   * @param {number} wait
   */
  async poll(first, wait) {
    let url = `${first}&transport=long-polling&wait=${wait}`;
    for (;;) {
      const answer = await fetch(url, { cache: "no-store" });
      const text = await answer.text();
      if (!answer.ok) throw new Error(`a poll was answered ${answer.status}: ${text}`);
      for (const line of text.split("\n")) this.hear(line);
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
        // What an old document still says is of no interest.
        if (source === frame.contentWindow) this.hear(text);
      },
    });
    this.reload = () => load(`${this.url}?cursor=${this.position}`);
    load(first);
  }
}

/**
 * A Runner that the page makes itself.
 * @param {number} id
 */
function runner(id) {
  const head = { id, name: `Runner ${id}`, pad: "" };
  const short = RUNNER_BYTES - JSON.stringify(head).length;
  return { ...head, pad: "x".repeat(short) };
}
