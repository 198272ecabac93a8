/** A page that subscribes to one numbered topic, and keeps a ledger of its events. */

import { enter, ledger } from "/e2e/ledger.js";
import { columns } from "/sdk/arrow.js";
import { foreverFrame, published } from "/sdk/forever-frame.js";
import { connectTabs } from "/sdk/tabs.js";
import { connect } from "/sdk/thalweg.js";
import { connectInWorker } from "/sdk/worker.js";

/** @type {Set<() => void>} */
const waiting = new Set();
const changed = () => {
  for (const look of [...waiting]) look();
};
const named = (name) => (name === "forever-frame" ? foreverFrame : name);
const chosen = (transports) => (transports === "published" ? published("/") : transports.map(named));

/** Records a status. A test with many breaks need not wait for each delay. */
const keep = (status) => {
  e2e.book.statuses.push(status);
  if (status.state === "waiting") setTimeout(() => e2e.isImpatient && e2e.wake(), 50);
  changed();
};

const e2e = {
  book: ledger(),
  session: null,
  subscription: null,
  isImpatient: false,
  busy: null,
  goOn: null,

  /** Opens a session. In `token`, `#` becomes the number of requests for a token; with `mint` the test creates each token. */
  open({ transports, token, isInWorker, isShared, isImpatient, ...options } = {}) {
    e2e.isImpatient = Boolean(isImpatient);
    let asked = 0;
    const all = {
      ...options,
      ...(token && { token: () => (token === "mint" ? globalThis.mint() : token.replace("#", `${++asked}`)) }),
      onStatus: keep,
    };
    const create = () => new Worker("/sdk/worker-host.js", { type: "module" });
    if (isShared)
      e2e.session = connectTabs(create, "/", { identity: "user", ...all, ...(transports && { transports }) });
    else if (isInWorker) {
      const worker = create();
      e2e.session = connectInWorker(worker, "/", { ...all, ...(transports && { transports }) });
    } else e2e.session = connect("/", { ...all, ...(transports && { transports: chosen(transports) }) });
  },

  subscribe(topic, options = {}) {
    e2e.subscription = e2e.session.subscribe(topic, options, (batch) => {
      enter(e2e.book, batch);
      changed();
      if (e2e.busy) return e2e.busy;
    });
  },

  /** Subscribes to columns. The column after the offsets has the numbers. */
  columns(topic, { token, isImpatient, ...options } = {}) {
    e2e.isImpatient = Boolean(isImpatient);
    e2e.book = ledger();
    let asked = 0;
    const all = {
      ...options,
      ...(token && { token: () => token.replace("#", `${++asked}`) }),
      onStatus: keep,
    };
    e2e.session = columns("/", topic, all, ({ table, gap, schemaChanged }) => {
      if (schemaChanged) e2e.book.schemas.push(table.names.slice(1));
      enter(e2e.book, { events: table.children[1].toArray(), gap });
      changed();
      if (e2e.busy) return e2e.busy;
    });
  },

  /** Leaves the topic and subscribes again at once, with another ledger. */
  again(topic, options) {
    e2e.subscription.close();
    e2e.book = { ...ledger(), statuses: e2e.book.statuses };
    e2e.subscribe(topic, options);
  },

  /** Simulates the return of the network. */
  wake() {
    dispatchEvent(new Event("online"));
  },

  use(name) {
    e2e.session.use(named(name));
  },

  /** Makes the page busy: the next batch is not processed before `goOn`. */
  rest() {
    e2e.busy = new Promise((go) => {
      e2e.goOn = () => {
        e2e.busy = null;
        go();
      };
    });
  },

  until(test) {
    return new Promise((resolve) => {
      const look = () => {
        if (!test(e2e.book, e2e.session.status)) return;
        waiting.delete(look);
        resolve(structuredClone(e2e.book));
      };
      waiting.add(look);
      look();
    });
  },
};

globalThis.e2e = e2e;
