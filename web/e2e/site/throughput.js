/** How many events a second come into a page, by the SDK, as JSON or as columns, or by hand: each is touched. */

import { listen } from "/e2e/hand-written.js";
import { columns } from "/sdk/arrow.js";
import { connect } from "/sdk/thalweg.js";

const TOPIC = "fast";
/** What was under way when one way ended is not counted to the next. */
const REST_MS = 150;

let events = 0;
let missed = 0;
let sum = 0;

function hear(batch) {
  events += batch.events.length;
  missed += batch.gap?.missed ?? 0;
  for (const event of batch.events) sum += event[0];
}

/** What of a table is read. */
const READ = {
  "one column": ({ children: [, first] }) => add(first.toArray()),
  "every value": ({ children }) => {
    for (const column of children) add(column.toArray());
  },
};

function add(values) {
  for (let at = 0; at < values.length; at++) {
    const value = values[at];
    sum += typeof value === "string" ? value.length : Number(value);
  }
}

function begin(by, transport, origin) {
  if (transport === "arrow") {
    const stream = columns(origin, TOPIC, {}, ({ table, count, gap }) => {
      events += count;
      missed += gap?.missed ?? 0;
      READ[by](table);
    });
    return () => stream.close();
  }
  if (by === "hand") return listen(transport, `${origin}/v1/topics/${TOPIC}`, hear);
  const session = connect(origin, { transports: [transport] });
  session.subscribe(TOPIC, {}, hear);
  return () => session.close();
}

const after = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Events a second in `span` ms, after `warming` ms, and what part of all was missed then;
 * events in all.
 */
globalThis.take = async (by, transport, origin, warming, span) => {
  const before = events;
  const end = begin(by, transport, origin);
  await after(warming);
  const from = { events, missed, atMs: performance.now() };
  await after(span);
  const [came, lost] = [events - from.events, missed - from.missed];
  const eventsPerS = (came / (performance.now() - from.atMs)) * 1000;
  end();
  await after(REST_MS);
  return { eventsPerS, missedShare: lost / (came + lost), events: events - before, sum };
};
