/** The panel that traces a subject: all that one user does at this server and is refused, live. */

import { useEffect, useRef, useState } from "preact/hooks";
import { bytes, counted, duration } from "../format.js";
import { problemOf } from "../server.js";
import { follow, type TraceLine } from "./trace-lines.js";

/** Number of lines that the page shows. */
const LINES_MAX = 200;

/** The parameter of the page's address that names a subject. */
const PARAMETER = "trace";

/** Returns the link to the trace of a subject. */
export function traceLink(subject: string): string {
  return `./?${new URLSearchParams({ [PARAMETER]: subject })}`;
}

interface Shown extends TraceLine {
  readonly number: number;
}

/** Reasons of the server for the end of a trace. */
const ENDS: Readonly<Record<string, string>> = {
  time: "The trace has reached its longest time: start it again",
  draining: "The trace has ended, because the server shuts down",
};

function useTrace() {
  const [lines, setLines] = useState<readonly Shown[]>([]);
  const [isOpen, setIsOpen] = useState(false);
  const [said, setSaid] = useState("");
  const current = useRef<AbortController | null>(null);
  const stop = (reason: string): void => {
    current.current?.abort();
    current.current = null;
    setIsOpen(false);
    setSaid(reason);
  };
  const start = (subject: string): void => {
    stop("");
    const own = new AbortController();
    current.current = own;
    setLines([]);
    setIsOpen(true);
    let count = 0;
    let end = "The connection to the server is lost: start the trace again";
    const took = (taken: readonly TraceLine[]): void => {
      if (current.current !== own) return;
      for (const { what, reason, ends_in_s = 0 } of taken) {
        if (what === "begin") setSaid(`Tracing ${subject} for at most ${duration(ends_in_s * 1000)}`);
        if (what === "end") end = ENDS[reason ?? ""] ?? end;
      }
      const numbered = taken.filter(isAction).map((line) => ({ ...line, number: count++ }));
      setLines((before) => [...numbered.reverse(), ...before].slice(0, LINES_MAX));
    };
    follow(subject, own.signal, took).then(
      () => current.current === own && stop(end),
      (error: unknown) => current.current === own && stop(problemOf(error).text),
    );
  };
  useEffect(() => () => current.current?.abort(), []);
  return { lines, isOpen, said, start, stop: () => stop("Stopped") };
}

/** Returns whether a line is about the subject, and not about the trace itself. */
function isAction({ what, topic }: TraceLine): boolean {
  return what !== "begin" && (what !== "end" || topic !== undefined);
}

export function Trace() {
  const linked = new URLSearchParams(location.search).get(PARAMETER) ?? "";
  const [subject, setSubject] = useState(linked);
  const { lines, isOpen, said, start, stop } = useTrace();
  useEffect(() => {
    if (linked) start(linked);
  }, []);
  return (
    <section class="panel trace">
      <h2>Trace a subject</h2>
      <form
        class="controls"
        onSubmit={(event) => {
          event.preventDefault();
          start(subject);
        }}
      >
        <label>
          <span>
            Subject (<code>sub</code>) of a user’s token
          </span>
          <input required value={subject} onInput={({ currentTarget }) => setSubject(currentTarget.value)} />
        </label>
        <button type="submit" class="primary">
          Trace
        </button>
        <button type="button" disabled={!isOpen} onClick={stop}>
          Stop
        </button>
      </form>
      <p class="note" role="status">
        {said && `${said}.`}
        {isOpen && lines.length === 0 && " The subject has done nothing yet."}
      </p>
      {lines.length > 0 && (
        <div class="scroll lines" role="region" aria-label="Lines of the trace, the newest first" tabIndex={0}>
          <table>
            <thead>
              <tr>
                <th class="text">Time</th>
                <th class="text">Action</th>
                <th class="text">Outcome</th>
                <th class="text">Topic</th>
                <th class="text">Details</th>
              </tr>
            </thead>
            <tbody>
              {lines.map((line) => (
                <Line key={line.number} line={line} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {lines.length === LINES_MAX && <p class="note">The newest {LINES_MAX} lines.</p>}
    </section>
  );
}

function Line({ line }: { line: TraceLine }) {
  const { at_ms, what, topic, path, code } = line;
  return (
    <tr>
      <th scope="row">{time(at_ms)}</th>
      <td class="text">{what}</td>
      <td class={code ? "text warn" : "text"}>{code ? `refused: ${code}` : "done"}</td>
      <td class="text long">{topic ?? path ?? ""}</td>
      <td class="text">{details(line)}</td>
    </tr>
  );
}

function details({ connection, transport, key, position, events, bytes: size, reason, lines }: TraceLine): string {
  const parts = [
    transport,
    key !== undefined && `key ${key}`,
    events !== undefined && `${counted(events, "event")}, ${bytes(size ?? 0)}`,
    position && `at ${position}`,
    reason,
    lines !== undefined && `${counted(lines, "line")} left out`,
    connection && `connection ${connection}`,
  ];
  return parts.filter(Boolean).join(", ");
}

/** Returns the local time of day, with milliseconds. */
function time(ms: number): string {
  const twoDigits = { hour: "2-digit", minute: "2-digit", second: "2-digit" } as const;
  return new Date(ms).toLocaleTimeString("en-GB", { ...twoDigits, fractionalSecondDigits: 3 });
}
