/** The strip above the panels: state of the connection, figures, and actions. */

import type { Session, Status } from "thalweg";
import { bytes } from "../format.js";
import { reasonOf } from "../lost.js";
import type { Cuttable } from "./cut.js";
import { at, type Draw, say } from "./page.js";

/** Time over which the rate is measured, ms. */
const RATE_MS = 5000;

/** The figures of `code/numbers.js`. */
export interface Seen {
  last: number;
  received: number;
  lost: number;
  repeated: number;
}

export interface Strip {
  show(status: Status): void;
  /** Shows a problem that lasts, and details, in place of the status. The first one stays. */
  fail(problem: string, detail: string): void;
  readonly isPaused: boolean;
  readonly draw: Draw;
}

/** Returns the reason of a status, and the time until the next attempt. */
function detail({ state, reason, retryAt }: Status, nowMs: number): string {
  const why = reason ? `${reasonOf(reason).replace(/^./, (first) => first.toUpperCase())}.` : "";
  if (state === "closed") return why;
  if (state !== "waiting") return "All panels share one connection.";
  return retryAt ? `Next attempt in ${Math.max(0, Math.ceil((retryAt - nowMs) / 1000))} s. ${why}` : why;
}

export function strip(session: () => Session, { transports, received, cut }: Cuttable, seen: Seen): Strip {
  const kill = at<HTMLButtonElement>("kill");
  const reconnect = at<HTMLButtonElement>("reconnect");
  const pause = at<HTMLButtonElement>("pause");
  const choice = at<HTMLSelectElement>("transport");
  let status: Status = { state: "idle", transport: null, reason: null };
  let failure: { readonly problem: string; readonly detail: string } | null = null;
  let wasLost = false;
  let reconnects = 0;
  let samples: { atMs: number; received: number }[] = [];

  const nameOf = (transport: string | null): string =>
    [...choice.options].find(({ value }) => value === transport)?.text ?? "";
  const show = (next: Status): void => {
    status = next;
    const { state, transport } = next;
    if (state === "open" && wasLost) reconnects += 1;
    wasLost = state === "waiting" || (wasLost && state !== "open");
    kill.disabled = state !== "open";
    reconnect.disabled = state !== "waiting";
    const texts = {
      idle: "Connecting …",
      connecting: `Connecting over ${nameOf(transport)} …`,
      open: `Connected over ${nameOf(transport)}.`,
      waiting: "Not connected.",
      closed: "Closed.",
    };
    say(at("state"), failure?.problem ?? texts[state]);
    at("state").className = failure ? "waiting" : state;
  };

  kill.addEventListener("click", cut);
  reconnect.addEventListener("click", () => session().reconnect());
  pause.addEventListener("click", () => {
    pause.ariaPressed = `${pause.ariaPressed !== "true"}`;
  });
  choice.addEventListener("change", () => {
    session().use(transports.find(({ name }) => name === choice.value) ?? null);
  });

  const draw = (nowMs: number): void => {
    const figures = { received: seen.received, lost: seen.lost, repeated: seen.repeated, reconnects };
    for (const [id, value] of Object.entries(figures)) {
      say(at(id), Number.isNaN(value) ? "unknown" : value.toLocaleString("en"));
    }
    at("lost").classList.toggle("warn", seen.lost !== 0);
    at("repeated").classList.toggle("warn", seen.repeated !== 0);
    say(at("detail"), failure?.detail ?? detail(status, nowMs));
    const [first, last] = [samples[0], samples.at(-1)];
    if (last && nowMs - last.atMs < 1000) return;
    samples = [...samples.filter(({ atMs }) => nowMs - atMs <= RATE_MS), { atMs: nowMs, received: received() }];
    if (first) say(at("rate"), bytes(((received() - first.received) * 1000) / (nowMs - first.atMs)));
  };
  return {
    show,
    fail: (problem, detail) => {
      failure ??= { problem, detail };
      show(status);
    },
    get isPaused() {
      return pause.ariaPressed === "true";
    },
    draw,
  };
}
