/** The notice of a page that is not connected: the reason, the time until the next attempt, and a button. */

import { useEffect, useState } from "preact/hooks";
import type { Status } from "thalweg";
import { serverUrl } from "./server.js";

/** Time before a reader is told of a lost connection, ms. A shorter loss needs no notice. */
const NOTICED_MS = 1000;

/** The members of a status that the notice needs. Sessions and column streams both have them. */
type Lost = Pick<Status, "state" | "reason" | "retryAt">;

/** Reasons that the SDK gives as one word. */
const REASONS: Record<string, string> = {
  cut: "the connection broke",
  silent: "the server sent nothing for too long, not even a heartbeat",
};

export function reasonOf(reason: string): string {
  return REASONS[reason] ?? reason;
}

/** Returns whether the connection has been lost for at least a second. */
export function useLost({ state }: Lost): boolean {
  const isAway = state === "waiting" || state === "connecting";
  const [isLost, setIsLost] = useState(false);
  useEffect(() => {
    setIsLost(false);
    if (!isAway) return undefined;
    const timer = setTimeout(() => setIsLost(true), NOTICED_MS);
    return () => clearTimeout(timer);
  }, [isAway]);
  return isLost && isAway;
}

interface Props {
  readonly status: Lost;
  /** Whether the page shows data from before the connection was lost. */
  readonly hasData: boolean;
  reconnect(): void;
}

export function LostNotice({ status: { state, reason, retryAt }, hasData, reconnect }: Props) {
  const [why, setWhy] = useState(reason);
  // The status has no reason while an attempt is under way: the notice keeps the last one.
  useEffect(() => {
    if (reason) setWhy(reason);
  }, [reason]);
  const said = reason ?? why;
  return (
    <div class="lost">
      <p role="status">
        <strong>Not connected.</strong> {`No connection to ${serverUrl(".")}`}
        {said ? ` (${reasonOf(said)})` : ""}.
        {hasData && " The data below is not live: it is the last that this page received."}
      </p>
      <p class="go">
        {state === "waiting" && retryAt ? <Countdown until={retryAt} /> : <span>Connecting …</span>}
        <button type="button" class="primary" disabled={state !== "waiting"} onClick={reconnect}>
          Reconnect now
        </button>
      </p>
    </div>
  );
}

/** The seconds until the next attempt. They are outside of `role="status"`, so screen readers do not announce each second. */
function Countdown({ until }: { until: number }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, [until]);
  return <span class="countdown">{`Next attempt in ${Math.max(0, Math.ceil((until - now) / 1000))} s`}</span>;
}
