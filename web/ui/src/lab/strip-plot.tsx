/** The chart of a run: a mark for each sample, on one line for each cell and transport. */

import { brief } from "../format.js";
import { type Cell, cells, isSame, type Plan, shapes } from "./plan.js";
import type { Taken } from "./result.js";
import { figure } from "./sample.js";
import { median } from "./statistics.js";

/** Units of the drawing. */
const WIDTH = 600;
const ROW = 22;

interface Props {
  readonly plan: Plan;
  readonly samples: readonly Taken[];
  /** The cell that is measured now, and its figure so far. */
  readonly now?: { readonly cell: Cell; readonly figure: number | null } | null;
}

export function StripPlot({ plan, samples, now = null }: Props) {
  const isRows = plan.experiment === "a1";
  const shown = now?.figure && isRows ? [now.figure] : [];
  const most = Math.max(1, ...samples.map(({ sample }) => figure(sample)), ...shown);
  const across = (value: number): number => (value / most) * WIDTH;
  const transports = plan.transports;
  const groups = shapes(cells(plan), (cell) => cell);
  return (
    <figure class="strip-plot">
      <figcaption>
        {isRows
          ? "Events received per second, all connections together"
          : `ms for ${plan.trips.toLocaleString("en")} round trips`}
      </figcaption>
      {groups.map(([name, group]) => (
        <section key={name} aria-label={name}>
          {groups.length > 1 && <h3>{name}</h3>}
          {group.map((cell) => {
            const own = samples.filter((taken) => isSame(taken.cell, cell)).map(({ sample }) => figure(sample));
            const isNow = now !== null && isSame(now.cell, cell);
            return (
              <div
                key={cell.transport}
                class={`strip c${transports.indexOf(cell.transport) % 6} ${isNow ? "now" : ""}`}
              >
                <span class="label">{cell.transport}</span>
                <svg viewBox={`-6 0 ${WIDTH + 12} ${ROW}`} preserveAspectRatio="none" aria-hidden="true">
                  <line class="grid" x1="0" x2={WIDTH} y1={ROW / 2} y2={ROW / 2} />
                  {own.length > 0 && <rect class="bar" x="0" y="4" height={ROW - 8} width={across(median(own))} />}
                  {own.map((value, index) => (
                    <line key={index} class="mark" x1={across(value)} x2={across(value)} y1="2" y2={ROW - 2} />
                  ))}
                  {isNow && shown[0] && (
                    <line class="mark current" x1={across(shown[0])} x2={across(shown[0])} y1="2" y2={ROW - 2} />
                  )}
                </svg>
                <span class="figure">{own.length ? brief(median(own)) : isNow ? "measuring" : "–"}</span>
              </div>
            );
          })}
        </section>
      ))}
      <p class="note">
        A bar shows the median of the repeats, and a line shows one repeat. Scale: 0 to {brief(most)}{" "}
        {isRows ? "events/s" : "ms"}.
      </p>
    </figure>
  );
}
