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
  /** Shows a problem that lasts, in place of the status. The first one stays. */
  fail(problem: string): void;
  readonly isPaused: boolean;
  readonly draw: Draw;
}

export function strip(session: () => Session, { transports, received, cut }: Cuttable, seen: Seen): Strip {
  const kill = at<HTMLButtonElement>("kill");
  const reconnect = at<HTMLButtonElement>("reconnect");
  const pause = at<HTMLButtonElement>("pause");
  const choice = at<HTMLSelectElement>("transport");
  let status: Status | null = null;
  let problem = "";
  let wasLost = false;
  let reconnects = 0;
  let samples: { atMs: number; received: number }[] = [];

  const nameOf = (transport: string | null): string =>
    [...choice.options].find(({ value }) => value === transport)?.text ?? "";
  const show = (next: Status): void => {
    status = next;
    const { state, transport, reason } = next;
    if (state === "open" && wasLost) reconnects += 1;
    wasLost = state === "waiting" || (wasLost && state !== "open");
    kill.disabled = state !== "open";
    reconnect.disabled = state !== "waiting";
    const texts = {
      idle: "Connecting …",
      connecting: `Connecting over ${nameOf(transport)} …`,
      open: `Connected over ${nameOf(transport)}.`,
      waiting: `Not connected: ${reasonOf(reason ?? "cut")}.`,
      closed: `Closed: ${reason ?? "by this page"}.`,
    };
    say(at("state"), problem || texts[state]);
    at("state").className = problem ? "waiting" : state;
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
    const waitMs = status?.state === "waiting" && status.retryAt ? status.retryAt - nowMs : null;
    say(at("countdown"), waitMs === null ? "" : `Next attempt in ${Math.max(0, Math.ceil(waitMs / 1000))} s.`);
    const [first, last] = [samples[0], samples.at(-1)];
    if (last && nowMs - last.atMs < 1000) return;
    samples = [...samples.filter(({ atMs }) => nowMs - atMs <= RATE_MS), { atMs: nowMs, received: received() }];
    if (first) say(at("rate"), bytes(((received() - first.received) * 1000) / (nowMs - first.atMs)));
  };
  return {
    show,
    fail: (text) => {
      problem ||= text;
      if (status) show(status);
      else say(at("state"), text);
    },
    get isPaused() {
      return pause.ariaPressed === "true";
    },
    draw,
  };
}
