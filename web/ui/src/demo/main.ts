/** The demo: the panels of demo.html, over one session. */

import { connect, ThalwegError } from "thalweg";
import { foreverFrame } from "thalweg/forever-frame";
import { DEFAULT_ORDER } from "thalweg/transports";
// This style sheet comes first, so that the others can override it.
import "../style.css";
import "../matches/matches.css";
import "./demo.css";
import { ticker } from "../live/ticker.js";
import { onUnauthorized, request, token } from "../server.js";
import { answerPanel } from "./answer.js";
import { carsMap } from "./cars-map.js";
import { numbers } from "./code/numbers.js";
import { cuttable } from "./cut.js";
import { matchesPanel } from "./matches-panel.js";
import { speedChart } from "./speed-chart.js";
import { strip } from "./strip.js";

/** Time between two pictures, ms. */
const EVERY_MS = 100;

/** The text of each module of `code`. The page shows the code that it runs. */
const CODE: Record<string, string> = import.meta.glob("./code/*.js", { query: "?raw", import: "default", eager: true });
for (const place of document.querySelectorAll<HTMLElement>("[data-code]")) {
  place.textContent = CODE[`./code/${place.dataset["code"]}.js`] ?? "";
}

const connections = cuttable([...DEFAULT_ORDER, foreverFrame]);
const seen = { last: 0, received: 0, lost: 0, repeated: 0 };
const top = strip(() => session, connections, seen);
// The forever frame is only for readers who choose it.
const order = connections.transports.filter(({ name }) => name !== foreverFrame.name);
const session = connect(".", { token, transports: order, onStatus: top.show });

// The panels show no errors of their subscriptions, so that their code stays short.
addEventListener("error", (event) => {
  if (!(event.error instanceof ThalwegError)) return;
  event.preventDefault();
  top.fail("The server refused a part of this page.", event.error.message);
});
onUnauthorized(() => top.fail("This server requires a token.", "Enter it on the Live page, then return here."));
void request("v1/columns/car-positions").then(
  ({ status }) => {
    if (status !== 404) return;
    top.fail("This server runs without the demo.", "Start it with: thalweg serve --demo");
    session.close();
  },
  // The session reports the connection.
  () => {},
);

numbers(session, seen);
const panels = [carsMap(session), speedChart(session), matchesPanel(session), answerPanel(session)];
ticker(
  () => EVERY_MS,
  (nowMs) => {
    top.draw(nowMs);
    if (!top.isPaused) for (const draw of panels) draw(nowMs);
  },
);
