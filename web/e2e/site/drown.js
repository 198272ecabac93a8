/**
 * A page that does with each event what such pages do: keeps it, sums its columns, and
 * draws the newest a few times a second. Its data comes by the SDK, or by a WebSocket as
 * pages without it have one.
 */

import { listen } from "/e2e/hand-written.js";
import { connect } from "/sdk/thalweg.js";

const HELD_MAX = 10_000;
const DRAWN = 50;
const DRAW_EVERY_MS = 200;

const address = new URLSearchParams(location.search);
const held = new Array(HELD_MAX);
const sums = [];
const lengths = [];
let count = 0;
let missed = 0;
let newest = null;

/** Work in proportion to the data: each cell is looked at. */
function take({ events, gap }) {
  missed += gap?.missed ?? 0;
  for (const event of events) {
    for (let column = 0; column < event.length; column++) {
      const cell = event[column];
      if (typeof cell === "number") sums[column] = (sums[column] ?? 0) + cell;
      else lengths[column] = Math.max(lengths[column] ?? 0, cell.length);
    }
    held[count++ % HELD_MAX] = event;
    newest = event;
  }
}

function draw() {
  const rows = [];
  for (let back = Math.min(DRAWN, count); back > 0; back--) rows.push(held[(count - back) % HELD_MAX]);
  document.getElementById("rows").innerHTML = rows.map((row) => `<tr><td>${row.join("<td>")}</tr>`).join("");
  document.getElementById("state").textContent = `${count}`;
  // Told to whoever measures, even when the page answers nobody any more.
  console.debug(JSON.stringify({ atMs: Date.now(), count, missed, due: newest?.[1] ?? null }));
}

setInterval(draw, DRAW_EVERY_MS);
const origin = address.get("origin");
if (address.get("by") === "sdk") connect(origin, { transports: ["websocket"] }).subscribe("rows", {}, take);
else listen("websocket", `${origin}/v1/topics/rows`, take);
