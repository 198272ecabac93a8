/** The report of a run: findings, charts, figures, and how they were measured. */

import { brief } from "../format.js";
import { Chart, type Line } from "./chart.js";
import { type Strip, Strips } from "./strips.js";
import {
  at,
  axis,
  byCell,
  type Comparison,
  type Grid,
  looks,
  METRICS,
  type Metric,
  OVER_TIME,
  type Part,
  type Shown,
  type ShownPart,
  type Summary,
  title,
} from "./summary.js";
import "./report.css";

/** Charts of a summary that names none. */
const USUAL = ["events", "cpu", "p99"];
/** More cells than this are folded. */
const OPEN_CELLS_MAX = 3;
/** Comparisons of more cells and subjects than this are folded. */
const STRIPS_MAX = 80;
const FLOOR =
  "limit is the floor: a minimal program that sends the same bytes over the same connections and does nothing else.";

export function Report({ summary }: { summary: Summary }) {
  const { manifest, shown } = summary;
  const { cpu, cores } = manifest.machine;
  const parts = summary.parts.map((part, index) => ({ part, text: shown?.parts[index] }));
  const measured = parts.filter(({ part }) => part.rows.length);
  const hasFloor = measured.some(({ part }) => part.rows.some(({ subject }) => subject === "limit"));
  return (
    <div class="report">
      <header>
        <p class="about">
          {["Thalweg lab", summary.name, manifest.begun.slice(0, 10), cpu && `${cpu}, ${cores} cores`]
            .filter(Boolean)
            .join(" · ")}
        </p>
        <h1>{shown?.headline ?? summary.name}</h1>
      </header>
      {!measured.length && <p class="empty">No sample was taken.</p>}
      {shown && <Table label="Standings" grid={shown.standings} />}
      <div class="first">
        <div>
          {measured.map(({ part, text }) => (
            <Ratios key={part.name} part={part} text={text} />
          ))}
        </div>
        {shown && (
          <div class="words">
            <List heading="How sure that is" items={shown.trust} />
            <List heading="In detail" items={shown.details} />
            {hasFloor && <p class="note">{FLOOR}</p>}
          </div>
        )}
      </div>
      {measured.map(({ part, text }) => (
        <Scenario key={part.name} part={part} text={text} />
      ))}
      {shown && shown.cost.length > 0 && (
        <section>
          <h2>What it costs</h2>
          <Table label="Cost models" grid={shown.cost_table} />
          <List items={shown.cost} />
        </section>
      )}
      {shown && shown.unsettled.length > 0 && (
        <section>
          <List heading={shown.unsettled[0]?.replace(/:$/, "") ?? ""} items={shown.unsettled.slice(1)} />
        </section>
      )}
      <section>
        <h2>How it was measured</h2>
        {shown && (
          <dl>
            {shown.facts.map(([name, values]) => (
              <>
                <dt>{name}</dt>
                {values.map((value) => (
                  <dd key={value}>{value}</dd>
                ))}
              </>
            ))}
          </dl>
        )}
        <h3>To run it again</h3>
        <p>From the folder of this run, with everything as it was, or as it was typed:</p>
        <pre>
          thalweg-lab bench rerun &lt;folder&gt;{"\n"}
          {manifest.command_line}
        </pre>
        <Explained />
      </section>
    </div>
  );
}

function Scenario({ part, text }: { part: Part; text: ShownPart | undefined }) {
  const cells = byCell(part, text);
  const found = axis(cells);
  const look = looks(part.rows);
  const metrics = (text?.charts ?? USUAL).flatMap((name) => METRICS[name] ?? []);
  return (
    <section>
      <h2>{part.name}</h2>
      <p class="title">{part.title}</p>
      <p class="note">{text?.asked}</p>
      <ul class="legend">
        {[...look].map(([name, colour]) => (
          <li key={name} title={name === "limit" ? FLOOR : undefined}>
            <i class={colour} />
            {name}
          </li>
        ))}
        <li class="note">A hollow mark: the subject was not the limit. Whiskers: the interval of the median.</li>
      </ul>
      {found.key !== null &&
        found.facets.map((facet) => (
          <div key={facet.label}>
            {facet.label && <h3>{facet.label}</h3>}
            <div class="charts">
              {metrics.map((metric) => (
                <Against key={metric.title} metric={metric} cells={facet.cells} of={found.key as string} look={look} />
              ))}
            </div>
          </div>
        ))}
      {found.rest.length > 0 &&
        metrics.map((metric) => (
          <Strips key={metric.title} title={metric.title} strips={lines(found.rest, metric, look)} />
        ))}
      <Folded name="Latency by percentile, µs" cells={cells.filter(has((one) => one.row.latency["p50_us"] != null))}>
        {(cell) => <Percentiles cell={cell} look={look} />}
      </Folded>
      {OVER_TIME.map(([name, of]) => (
        <Folded key={name} name={name} cells={cells.filter(has((one) => of(one).length > 1))}>
          {(cell) => <OverTime cell={cell} look={look} of={of} />}
        </Folded>
      ))}
      {!cells.some(has((one) => (one.curves?.rss_bytes.length ?? 0) > 1)) && (
        <p class="note">There are no figures over time: an archive keeps those of spans of at least 10 s.</p>
      )}
      <Folded name="What was tried, and its p99" cells={cells.filter(has((one) => !!one.curves?.steps.length))}>
        {(cell) => <Steps cell={cell} look={look} />}
      </Folded>
      {text && <Figures part={part} text={text} />}
      {text?.notes.map((note) => (
        <p key={note} class="note">
          {note}
        </p>
      ))}
      {text?.received.map(([name, facts]) => (
        <div key={name}>
          <h3>{name}</h3>
          <dl>
            {facts.map(([fact, line]) => (
              <>
                <dt>{fact}</dt>
                <dd>{line}</dd>
              </>
            ))}
          </dl>
        </div>
      ))}
      {text?.published && (
        <>
          <h3>Published, another machine</h3>
          <p class="note">
            {text.published.source}. {text.published.machine}. Context, and part of no ratio here.
          </p>
          <dl>
            {text.published.figures.map(({ what, figure }) => (
              <>
                <dt>{what}</dt>
                <dd>{figure}</dd>
              </>
            ))}
          </dl>
        </>
      )}
    </section>
  );
}

/** Ratios to the baseline in the scenario's own metric. */
function Ratios({ part, text }: { part: Part; text: ShownPart | undefined }) {
  const metric = text?.metric ?? (part.comparisons ?? [])[0]?.metric;
  const strip = (one: Comparison, label: string, figure: string | undefined): Strip => ({
    label,
    value: one.ratio,
    low: one.low,
    high: one.high,
    look: one.is_control ? "again" : one.word,
    figure: figure ?? `${one.ratio.toFixed(2)} ${one.is_control ? "" : one.word}`,
    tip: one.is_control ? "the baseline beside itself (A/A): noise" : `${one.subject} beside ${one.baseline}`,
  });
  const strips: Strip[] = [];
  let cell: string | undefined;
  (part.comparisons ?? []).forEach((one, index) => {
    if (one.metric !== metric) return;
    if (one.cell !== cell) strips.push({ label: one.cell ?? "" });
    cell = one.cell;
    strips.push(strip(one, one.subject, text?.compared[index]));
  });
  const pooled = (part.pooled ?? []).flatMap((one, index) =>
    one.metric === metric && !one.is_control ? [strip(one, one.subject, text?.pooled[index])] : [],
  );
  const name = `${part.name}: ${text?.metric_name ?? metric}, × baseline`;
  if (pooled.length && strips.length > STRIPS_MAX) {
    return (
      <>
        <Strips title={`${name}, all cells`} strips={pooled} isRatio />
        <details>
          <summary>Each cell</summary>
          <Strips title={name} strips={strips} isRatio />
        </details>
      </>
    );
  }
  const all = pooled.length && strips.length > 3 ? [{ label: "all cells" }, ...pooled, ...strips] : strips;
  return <Strips title={name} strips={all} isRatio />;
}

interface OfCell {
  readonly cell: readonly Shown[];
  readonly look: ReadonlyMap<string, string>;
}

function Against({
  metric,
  cells,
  of,
  look,
}: {
  metric: Metric;
  cells: readonly (readonly Shown[])[];
  of: string;
  look: ReadonlyMap<string, string>;
}) {
  const sorted = [...cells].sort((one, other) => at(one, of) - at(other, of));
  const all = [...look].map(([name, colour]): Line => {
    const points = sorted.flatMap((cell, x) => {
      const shown = cell.find(({ row }) => row.subject === name);
      const estimate = shown && metric.of(shown);
      if (!shown || !estimate) return [];
      const { median: y, low, high } = estimate;
      return [{ x, y, low, high, isHollow: isHollow(shown) }];
    });
    return { name, look: colour, points };
  });
  const known = all.filter(({ points }) => points.length);
  if (!known.length) return null;
  return (
    <Chart title={metric.title} xTitle={title(of)} lines={known} names={sorted.map((cell) => brief(at(cell, of)))} />
  );
}

function isHollow({ row, curves }: Shown): boolean {
  return curves ? curves.limited_by !== "subject" : !row.verdict.startsWith("subject");
}

/** Strips of cells, with a heading for each. */
function lines(cells: readonly (readonly Shown[])[], metric: Metric, look: ReadonlyMap<string, string>): Strip[] {
  return cells.flatMap((cell): Strip[] => {
    const own = cell.flatMap((shown): Strip[] => {
      const estimate = metric.of(shown);
      if (!estimate) return [];
      const { median: value, low, high } = estimate;
      const { subject } = shown.row;
      const hollow = isHollow(shown) ? " hollow" : "";
      return [{ label: subject, value, low, high, look: `${look.get(subject)}${hollow}`, figure: brief(value) }];
    });
    return own.length ? [{ label: cell[0]?.row.cell ?? "" }, ...own] : [];
  });
}

const has =
  (of: (shown: Shown) => boolean) =>
  (cell: readonly Shown[]): boolean =>
    cell.some(of);

function Folded({
  name,
  cells,
  children,
}: {
  name: string;
  cells: readonly (readonly Shown[])[];
  children: (cell: readonly Shown[]) => preact.ComponentChildren;
}) {
  if (!cells.length) return null;
  return (
    <details open={cells.length <= OPEN_CELLS_MAX}>
      <summary>{name}</summary>
      <div class="charts">{cells.map(children)}</div>
    </details>
  );
}

const SHARES = ["p50", "p90", "p99", "p999"];

function Percentiles({ cell, look }: OfCell) {
  const all = cell.map(({ row }): Line => {
    const points = SHARES.flatMap((share, x) => {
      const y = row.latency[`${share}_us`];
      return typeof y === "number" ? [{ x, y }] : [];
    });
    return { name: row.subject, look: look.get(row.subject) ?? "", points };
  });
  return <Chart title={cell[0]?.row.cell ?? ""} xTitle="percentile" lines={all} names={["50", "90", "99", "99.9"]} />;
}

function OverTime({ cell, look, of }: OfCell & { of: (typeof OVER_TIME)[number][1] }) {
  const all = cell.map((shown): Line => {
    const { subject } = shown.row;
    return { name: subject, look: look.get(subject) ?? "", points: of(shown).map(([x, y]) => ({ x, y })) };
  });
  return <Chart title={cell[0]?.row.cell ?? ""} xTitle="seconds since the measurement began" lines={all} />;
}

function Steps({ cell, look }: OfCell) {
  const isRamp = cell.some(({ curves }) => curves?.steps.some((step) => step.connections > 0));
  const all = cell.map(({ row, curves }): Line => {
    const points = (curves?.steps ?? []).map(({ rate, connections, p99_us, missed }) => ({
      x: isRamp ? Math.max(1, connections) : rate,
      y: Math.max(1, p99_us),
      isHollow: missed !== null,
    }));
    return { name: row.subject, look: look.get(row.subject) ?? "", points, isLoose: true };
  });
  const x = isRamp ? "connections" : "events published per second and topic";
  return (
    <Chart title={`${cell[0]?.row.cell ?? ""}; a hollow mark missed the objective`} xTitle={x} lines={all} isLogX />
  );
}

/** Every figure of a part. */
function Figures({ part, text }: { part: Part; text: ShownPart }) {
  const [groups, heads] = text.heads;
  const spans: { name: string; span: number }[] = [];
  for (const name of groups) {
    const last = spans.at(-1);
    if (last && !name) last.span++;
    else spans.push({ name, span: 1 });
  }
  let before: string | undefined;
  return (
    <div class="scroll" role="region" aria-label={`Every figure of ${part.name}`} tabIndex={0}>
      <table>
        <thead>
          <tr class="groups">
            <th />
            {spans.map(({ name, span }, index) => (
              <th key={index} colSpan={span}>
                {name}
              </th>
            ))}
          </tr>
          <tr>
            <th scope="col">subject</th>
            <Heads heads={heads} />
          </tr>
        </thead>
        <tbody>
          {part.rows.map((row, index) => {
            const isNew = row.cell !== before;
            before = row.cell;
            return (
              <>
                {isNew && (
                  <tr class="cell">
                    <th colSpan={heads.length + 1} scope="rowgroup">
                      {row.cell}
                    </th>
                  </tr>
                )}
                <tr>
                  <th scope="row">{row.subject}</th>
                  {text.figures[index]?.map((figure, column) => (
                    <td key={column}>{figure}</td>
                  ))}
                </tr>
              </>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Heads({ heads }: { heads: readonly string[] }) {
  return heads.map((head, index) => (
    <th key={index} scope="col">
      {head}
    </th>
  ));
}

/** Lines of fields, the first with the heads. */
function Table({ label, grid: [heads, ...rows] }: { label: string; grid: Grid }) {
  if (!heads) return null;
  return (
    <div class="scroll" role="region" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            <Heads heads={heads} />
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, ...fields]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {fields.map((field, index) => (
                <td key={index}>{field}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function List({ heading, items }: { heading?: string; items: readonly string[] }) {
  if (!items.length) return null;
  return (
    <>
      {heading && <h3>{heading}</h3>}
      <ul class="list">
        {items.map((item) => (
          <li key={item}>{item}</li>
        ))}
      </ul>
    </>
  );
}

function Explained() {
  return (
    <>
      <h3>How to read it</h3>
      <p>
        A verdict names the limit of a sample: the subject (its cores were saturated, so its events per second are a
        throughput), the swarm, both (unranked), the schedule or window (nothing was saturated), the machine (other
        processes used the cores), or gaps that the subject announced. An invalid sample lost, repeated or reordered
        events, and no figure contains it.
      </p>
      <p>
        A ratio is the mean of the logarithms of subject to baseline, round by round. If the baseline was measured twice
        (A/A), the ratio is to the mean of both. The rounds of one start of the processes count as one value. The
        interval is Student's t over the starts: it contains the true ratio in 95 of 100 cases, also if a cell ended as
        soon as it was decided. Over all cells, each has the same weight.
      </p>
      <p>
        Better or worse is a difference that chance produces in fewer than 5 of 100 scenarios with as many cells and
        subjects (Holm's correction). Equivalent is an interval within 5 % of 1. Everything else is undecided, with the
        largest difference that is not excluded.
      </p>
    </>
  );
}
