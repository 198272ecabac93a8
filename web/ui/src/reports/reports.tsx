/** The reports page: the lab's runs, and the report of one run. */

import { useEffect, useState } from "preact/hooks";
import { counted } from "../format.js";
import { Report } from "../report/report.js";
import { sentence, token, withTicket } from "../server.js";
import { Unreachable } from "../unreachable.js";
import { date, type Found, file, type Listed, list, processor, type Run, read } from "./runs.js";
import "./reports.css";

/** Time between two requests while there is no list to show, ms. */
const AGAIN_MS = 5000;

export function ReportsPage() {
  const [listed, setListed] = useState<Listed | null>(null);
  const [picked, setPicked] = useState<string | null>(() => new URLSearchParams(location.search).get("run"));
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    const look = (): void => {
      void list().then((found) => {
        setListed(found);
        // The page keeps asking until the list has a run.
        if ("problem" in found || ("runs" in found && !found.runs.length)) timer = setTimeout(look, AGAIN_MS);
      });
    };
    look();
    return () => clearTimeout(timer);
  }, []);

  if (!listed) return <Empty title="Reports" />;
  if ("problem" in listed) return <Unreachable problem={listed.problem} />;
  if ("none" in listed) {
    return (
      <Empty title="This server shows no reports">
        <p>{sentence(listed.none)}.</p>
        <pre>thalweg serve --runs ./thalweg-runs</pre>
      </Empty>
    );
  }
  if (!listed.runs.length) {
    return (
      <Empty title="No run yet">
        <p>Run the benchmark. It takes about three minutes; then the run appears here:</p>
        <pre>thalweg-lab bench</pre>
      </Empty>
    );
  }
  const shown = listed.runs.find((run) => run.name === picked);
  const choose = (name: string): void => {
    history.replaceState(null, "", `?${new URLSearchParams({ run: name })}`);
    setPicked(name);
  };
  return (
    <section class="reports">
      <h1>Reports</h1>
      <p class="about">Benchmark runs of the lab, the newest first. Compare only figures of the same run.</p>
      <Runs runs={listed.runs} picked={shown?.name ?? null} choose={choose} />
      {listed.more && (
        <p class="note">The list shows only the newest {counted(listed.runs.length, "run")} of the folder.</p>
      )}
      {picked !== null && !shown && (
        <p class="problem" role="alert">
          This server has no run named {picked}. Select another run.
        </p>
      )}
      {shown && <RunReport key={shown.name} run={shown} />}
    </section>
  );
}

interface RunsProps {
  readonly runs: readonly Run[];
  readonly picked: string | null;
  choose(name: string): void;
}

function Runs({ runs, picked, choose }: RunsProps) {
  return (
    <div class={picked === null ? "scroll runs alone" : "scroll runs"} tabIndex={0} role="region" aria-label="Runs">
      <table>
        <thead>
          <tr>
            <th scope="col">run</th>
            <th scope="col">started</th>
            <th scope="col">title</th>
            <th scope="col">machine</th>
            <th scope="col">version</th>
            <th scope="col">
              <span class="quiet">report</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <tr key={run.name} class={picked === run.name ? "picked" : undefined}>
              <th scope="row">
                <label>
                  <input
                    type="radio"
                    name="run"
                    checked={picked === run.name}
                    disabled={!run.has_summary}
                    onChange={() => choose(run.name)}
                  />
                  {run.scenario ?? run.name}
                </label>
              </th>
              <td>{run.begun ? date(run.begun) : "–"}</td>
              <td class="text long">{run.title ?? "–"}</td>
              <td class="text">{run.machine ? processor(run.machine) : "–"}</td>
              <td class="text">{run.version?.split(",")[0] ?? "–"}</td>
              <td class="text">{run.has_report ? <ReportLink run={run} /> : run.has_summary ? "" : "unfinished"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A link to a report. Links cannot send a token, so the page adds a ticket to the path. */
function ReportLink({ run }: { run: Run }) {
  const path = file(run.name, "report.html");
  const follow = async (event: Event): Promise<void> => {
    if (!token()) return;
    event.preventDefault();
    location.assign(await withTicket(path).catch(() => path));
  };
  return (
    <a href={path} onClick={(event) => void follow(event)}>
      open file
    </a>
  );
}

function RunReport({ run }: { run: Run }) {
  const [found, setFound] = useState<Found | null>(null);
  useEffect(() => {
    if (run.has_summary) void read(run.name).then(setFound);
  }, [run.name, run.has_summary]);
  return (
    <figure class="shown" aria-label={`Report of ${run.scenario ?? run.name}, ${run.begun ?? ""}`}>
      <figcaption>{run.name}</figcaption>
      {!run.has_summary && <p class="empty">This run has no report: it is still in progress, or it was interrupted.</p>}
      {found && "problem" in found && <p class="problem">{found.problem.text}.</p>}
      {found && "summary" in found && (
        <>
          {!found.summary.shown && (
            <div class="note">
              <p>This summary has figures but no tables. Write a complete one in the folder of the runs:</p>
              <pre>
                thalweg-lab bench export --store . --format json {run.name} --out {run.name}/summary.json
              </pre>
            </div>
          )}
          <Report summary={found.summary} />
        </>
      )}
    </figure>
  );
}

interface EmptyProps {
  readonly title: string;
  readonly children?: preact.ComponentChildren;
}

function Empty({ title, children }: EmptyProps) {
  return (
    <section class="empty">
      <h1>{title}</h1>
      {children}
    </section>
  );
}
