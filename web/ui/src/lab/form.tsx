/** The form that sets up a run. */

import { useState } from "preact/hooks";
import type { TransportName } from "thalweg";
import { counted, duration } from "../format.js";
import { isHttp1 } from "./environment.js";
import type { Offer } from "./offer.js";
import { cells, estimateMs, HTTP_1_MAX, hindrance, type Plan } from "./plan.js";

const TRANSPORTS: readonly TransportName[] = ["websocket", "http-streaming", "sse", "forever-frame", "long-polling"];
const CONNECTIONS: readonly number[] = [1, 5, 10, 20, 50];
const SECONDS: readonly number[] = [1, 2, 5, 10];
const TRIPS: readonly number[] = [100, 1000, 5000];
const REPEATS: readonly number[] = [1, 3, 5, 9];
/** Highest rate that is selected by default, rows per ms: every machine can send this many. */
const MODEST = 100;

interface Props {
  readonly offer: Offer;
  start(plan: Plan): void;
}

export function Form({ offer, start }: Props) {
  const [experiment, setExperiment] = useState<Plan["experiment"]>("a1");
  const [transports, setTransports] = useState<readonly TransportName[]>(["websocket", "http-streaming", "sse"]);
  const [batches, setBatches] = useState<readonly number[]>(() => offer.batches.filter((batch) => batch <= MODEST));
  const [connections, setConnections] = useState<readonly number[]>([1]);
  const [seconds, setSeconds] = useState(2);
  const [trips, setTrips] = useState(1000);
  const [repeats, setRepeats] = useState(3);

  const isRows = experiment === "a1";
  const plan: Plan = isRows
    ? { experiment: "a1", transports, batches, connections, seconds, repeats }
    : { experiment: "b", transports, trips, repeats };
  const impossible = cells(plan).filter((cell) => hindrance(cell, isHttp1()));
  const possible = cells(plan).length - impossible.length;
  const missing = isRows ? offer.batches.length === 0 : offer.runners === 0;

  return (
    <form
      class="plan"
      onSubmit={(event) => {
        event.preventDefault();
        start(plan);
      }}
    >
      <fieldset class="choice big">
        <legend>Experiment</legend>
        <label>
          <input type="radio" name="experiment" checked={isRows} onChange={() => setExperiment("a1")} />
          <span>
            <b>A1, firehose</b> The server sends a batch of rows every millisecond. How many rows arrive, and how busy
            is this page?
          </span>
        </label>
        <label>
          <input type="radio" name="experiment" checked={!isRows} onChange={() => setExperiment("b")} />
          <span>
            <b>B, round trips</b> The server sends a record, this page acks it, and the server sends the next one. How
            long does a round trip take?
          </span>
        </label>
      </fieldset>
      <div class="controls">
        <Several label="Transports" options={TRANSPORTS} chosen={transports} choose={setTransports} />
        {isRows ? (
          <>
            <Several label="Rows per ms" options={offer.batches} chosen={batches} choose={setBatches} />
            <Several label="Connections" options={CONNECTIONS} chosen={connections} choose={setConnections} />
            <One label="Seconds per sample" options={SECONDS} chosen={seconds} choose={setSeconds} />
          </>
        ) : (
          <One label="Round trips per sample" options={TRIPS} chosen={trips} choose={setTrips} />
        )}
        <One label="Repeats" options={REPEATS} chosen={repeats} choose={setRepeats} />
      </div>
      {impossible.length > 0 && (
        <p class="note">
          {impossible.length} of {counted(cells(plan).length, "cell")} left out: over HTTP/1.1 a browser opens at most
          six connections to a server, and this page needs one for requests, so transports other than WebSocket can have
          at most {HTTP_1_MAX}.
        </p>
      )}
      <p class="go">
        <button type="submit" class="primary" disabled={!possible || missing}>
          Start
        </button>
        <span role="status">
          {missing
            ? "This server has no source for this experiment."
            : possible
              ? `${counted(possible, "cell")}, ${counted(repeats, "repeat")} each, in random order: ` +
                `about ${duration(estimateMs(plan, isHttp1()))}`
              : "Select at least one option in each group."}
        </span>
      </p>
    </form>
  );
}

interface SeveralProps<T> {
  readonly label: string;
  readonly options: readonly T[];
  readonly chosen: readonly T[];
  choose(chosen: readonly T[]): void;
}

function Several<T extends string | number>({ label, options, chosen, choose }: SeveralProps<T>) {
  if (!options.length) return null;
  return (
    <fieldset class="choice">
      <legend>{label}</legend>
      {options.map((option) => (
        <label key={option}>
          <input
            type="checkbox"
            checked={chosen.includes(option)}
            onChange={({ currentTarget }) =>
              // Keep the order of the options, and not that of the clicks.
              choose(options.filter((other) => (other === option ? currentTarget.checked : chosen.includes(other))))
            }
          />
          {option.toLocaleString("en")}
        </label>
      ))}
    </fieldset>
  );
}

interface OneProps {
  readonly label: string;
  readonly options: readonly number[];
  readonly chosen: number;
  choose(chosen: number): void;
}

function One({ label, options, chosen, choose }: OneProps) {
  return (
    <label>
      {label}
      <select value={chosen} onChange={({ currentTarget }) => choose(Number(currentTarget.value))}>
        {options.map((option) => (
          <option key={option} value={option}>
            {option.toLocaleString("en")}
          </option>
        ))}
      </select>
    </label>
  );
}
