/** One notice for a page whose connection is lost: why, when the next attempt comes, and a button that makes it now. */

import { useEffect, useState } from "preact/hooks";
import type { Status } from "thalweg";
import { serverUrl } from "./server.js";

/** A connection that is replaced sooner is no loss that a reader has to know of, ms. */
const NOTICED_MS = 1000;

/** The part of a status that matters here: of a session's, and of a stream's of columns. */
type Lost = Pick<Status, "state" | "reason" | "retryAt">;

/** Reasons of the SDK that are too short for a sentence. */
const REASONS: Record<string, string> = {
  cut: "the connection was cut",
  silent: "the server fell silent",
};

/** Why the session is not connected, in words. */
export function reasonOf(reason: string): string {
  return REASONS[reason] ?? reason;
}

/** Whether the connection has been lost for a while. */
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
  /** Whether data is shown that is as old as the loss. */
  readonly hasData: boolean;
  reconnect(): void;
}

export function LostNotice({ status: { state, reason, retryAt }, hasData, reconnect }: Props) {
  const [why, setWhy] = useState(reason);
  // An attempt that is being made has no reason of its own.
  useEffect(() => {
    if (reason) setWhy(reason);
  }, [reason]);
  const said = reason ?? why;
  return (
    <div class="lost">
      <p role="status">
        <strong>Not connected.</strong> {`No connection to ${serverUrl(".")}`}
        {said ? ` (${reasonOf(said)})` : ""}.{hasData && " The data below is not live: it is the last that came."}
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

/** Not read aloud each second: it is no part of the notice's status. */
function Countdown({ until }: { until: number }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 250);
    return () => clearInterval(timer);
  }, [until]);
  return <span class="countdown">{`Next attempt in ${Math.max(0, Math.ceil((until - now) / 1000))} s`}</span>;
}
