/** The result of a run: findings, chart, table, and files to save. */

import { brief } from "../format.js";
import { findings, percent } from "./findings.js";
import { cells, label } from "./plan.js";
import { type Result, type Row, rows } from "./result.js";
import { LIMITS } from "./sample.js";
import { csv, download, json, markdown, TITLES } from "./save.js";
import { StripPlot } from "./strip-plot.js";

/** Notes on how each experiment is measured. */
const NOTES: Readonly<Record<Result["plan"]["experiment"], string>> = {
  a1:
    "Each WebSocket subscription has the SDK's default window: a page that falls behind gets larger batches or gaps, " +
    "and does not run out of memory.",
  b: "Over a WebSocket an ack is a message on the connection. Over every other transport it is a separate request.",
};

interface Props {
  readonly result: Result;
  again(): void;
}

export function ResultView({ result, again }: Props) {
  const { plan, environment, begun, failures } = result;
  const date = new Date(begun).toLocaleString("en-GB", { dateStyle: "long", timeStyle: "short" });
  const name = `thalweg-lab-${plan.experiment}-${begun.slice(0, 19).replaceAll(":", "")}`;
  return (
    <article class="result">
      <h2>{TITLES[plan.experiment]}</h2>
      <p class="note">
        {date} · {environment.browser} · {environment.cores} cores · {environment.server} ({environment.protocol})
        {environment.isLoopback && ", on the same machine"}
      </p>
      <ul class="findings">
        {findings(result).map((sentence) => (
          <li key={sentence}>{sentence}</li>
        ))}
      </ul>
      <StripPlot plan={plan} samples={result.samples} />
      <Figures rows={rows(result.samples, cells(plan))} isRows={plan.experiment === "a1"} />
      {failures.length > 0 && (
        <section>
          <h3>Not measured</h3>
          <ul class="findings">
            {failures.map(({ cell, why }) => (
              <li key={label(cell) + cell.transport}>
                {label(cell)} over {cell.transport}: {why}.
              </li>
            ))}
          </ul>
        </section>
      )}
      <p class="note">
        The number of repeats is small and the page measures itself: an open developer console, another tab or a busy
        machine changes the figures. Two transports count as different only if every repeat of one is beyond every
        repeat of the other. {NOTES[plan.experiment]}
      </p>
      <p class="go">
        <button type="button" onClick={() => download(`${name}.json`, "application/json", json(result))}>
          Save as JSON
        </button>
        <button type="button" onClick={() => download(`${name}.md`, "text/markdown", markdown(result))}>
          Save as Markdown
        </button>
        <button type="button" onClick={() => download(`${name}.csv`, "text/csv", csv(result))}>
          Save as CSV
        </button>
        <button type="button" class="primary" onClick={again}>
          New run
        </button>
      </p>
    </article>
  );
}

function Figures({ rows, isRows }: { rows: readonly Row[]; isRows: boolean }) {
  const times = isRows ? "behind the fastest" : "per trip";
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Figures">
      <table>
        <thead>
          <tr>
            <th scope="col">{isRows ? "cell" : "transport"}</th>
            {isRows && (
              <th scope="col" class="text">
                transport
              </th>
            )}
            <th scope="col">{isRows ? "events/s" : "total ms"}, median</th>
            <th scope="col">range</th>
            <th scope="col">repeats</th>
            {isRows && <th scope="col">MB/s</th>}
            <th scope="col">p50 ms {times}</th>
            <th scope="col">p99 ms {times}</th>
            <th scope="col">page busy</th>
            {isRows && <th scope="col">missed</th>}
            {isRows && (
              <th scope="col" class="text">
                limited by
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ cell, figure, p50Ms, p99Ms, busy, megabytesPerS, missed, limit }) => (
            <tr key={label(cell) + cell.transport}>
              <th scope="row">{isRows ? label(cell) : cell.transport}</th>
              {isRows && <td class="text">{cell.transport}</td>}
              <td>{brief(figure.median)}</td>
              <td>{range(figure.low, figure.high)}</td>
              <td>{figure.count}</td>
              {isRows && <td>{brief(megabytesPerS)}</td>}
              <td>{brief(p50Ms)}</td>
              <td>{brief(p99Ms)}</td>
              <td>{percent(busy)}</td>
              {isRows && <td>{brief(missed)}</td>}
              {isRows && <td class="text long">{LIMITS[limit]}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function range(low: number, high: number): string {
  const [one, other] = [brief(low), brief(high)];
  return one === other ? one : `${one} to ${other}`;
}
