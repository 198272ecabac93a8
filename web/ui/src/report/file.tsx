/** The report as a file of its own: `report.html`, into which the lab writes a summary. */

import { render } from "preact";
import "../style.css";
import { Report } from "./report.js";
import type { Summary } from "./summary.js";

const root = document.getElementById("main");
const summary = JSON.parse(document.getElementById("summary")?.textContent ?? "null") as Summary | null;
if (root && summary) {
  document.title = `${summary.name}, measured by Thalweg`;
  render(<Report summary={summary} />, root);
}
