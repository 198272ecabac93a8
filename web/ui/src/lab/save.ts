/** Exports of a result as files. Pure, except {@link download}. */

import { findings, percent } from "./findings.js";
import { cells, label } from "./plan.js";
import { type Result, rows } from "./result.js";
import { LIMITS } from "./sample.js";

export function json(result: Result): string {
  return `${JSON.stringify(result, null, 2)}\n`;
}

export function csv({ samples, plan }: Result): string {
  const lines = samples.map(({ cell, repeat, sample }) => {
    const shared = [plan.experiment, cell.transport, cell.batch ?? "", cell.connections, repeat];
    const { busy } = sample;
    const own =
      sample.kind === "rows"
        ? [sample.eventsPerS, sample.bytesPerS, sample.madePerS ?? "", sample.missed, ""]
        : ["", "", "", "", sample.totalMs];
    own.push(...(sample.kind === "rows" ? [sample.laterP50Ms, sample.laterP99Ms] : [sample.p50Ms, sample.p99Ms]));
    return [...shared, ...own, busy.share, busy.longTasks ?? ""].map(figure).join(",");
  });
  const head =
    "experiment,transport,rows_per_ms,connections,repeat,events_per_s,bytes_per_s,made_per_s,missed,total_ms," +
    "p50_ms,p99_ms,page_busy_share,long_task_share";
  return `${[head, ...lines].join("\n")}\n`;
}

export function markdown(result: Result): string {
  const { plan, environment, begun } = result;
  const isRows = plan.experiment === "a1";
  const table = rows(result.samples, cells(plan)).map((row) => {
    const { median, low, high, count } = row.figure;
    const figures = [median, low, high].map((value) => Math.round(value).toLocaleString("en"));
    const times = [row.p50Ms, row.p99Ms].map((ms) => ms.toPrecision(3));
    const shared = [label(row.cell), row.cell.transport, figures[0], `${figures[1]} to ${figures[2]}`, count];
    return [...shared, ...times, percent(row.busy), ...(isRows ? [LIMITS[row.limit]] : [])];
  });
  const unit = isRows ? "events/s" : "total ms";
  const later = isRows ? "behind the fastest" : "per trip";
  const shared = ["cell", "transport", `${unit}, median`, "range", "repeats"];
  const head = [...shared, `p50 ms ${later}`, `p99 ms ${later}`, "page busy", ...(isRows ? ["limited by"] : [])];
  const lines = [head, head.map(() => "---"), ...table].map((line) => `| ${line.join(" | ")} |`);
  return [
    `# ${TITLES[plan.experiment]}`,
    "",
    ...findings(result).map((sentence) => `- ${sentence}`),
    "",
    ...lines,
    "",
    `Measured at ${begun} by a page in ${environment.browser}, ${environment.cores} cores, against ${environment.server}` +
      ` (${environment.protocol}${environment.isLoopback ? ", same machine" : ""}).`,
    ...result.failures.map(({ cell, why }) => `\nNot measured: ${label(cell)} over ${cell.transport}: ${why}.`),
    "",
  ].join("\n");
}

export const TITLES: Readonly<Record<Result["plan"]["experiment"], string>> = {
  a1: "Experiment A1: how much of a firehose arrives",
  b: "Experiment B: round trips, one after another",
};

export function download(name: string, type: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  // The browser needs the URL until it has started to read the file.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

function figure(value: string | number): string {
  return typeof value === "number" && !Number.isInteger(value) ? value.toFixed(3) : `${value}`;
}
