/** The reports page: the lab's runs, and the report of one run. The lab writes the reports; the page only shows them. */

import { useEffect, useState } from "preact/hooks";
import { counted } from "../format.js";
import { problemOf, sentence, token, withTicket } from "../server.js";
import { Unreachable } from "../unreachable.js";
import { date, file, type Listed, list, processor, type Run } from "./runs.js";
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
        <pre>thalweg bench</pre>
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
      {shown && <Report key={shown.name} run={shown} />}
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
                    disabled={!run.has_report && !run.has_summary}
                    onChange={() => choose(run.name)}
                  />
                  {run.scenario ?? run.name}
                </label>
              </th>
              <td>{run.begun ? date(run.begun) : "–"}</td>
              <td class="text long">{run.title ?? "–"}</td>
              <td class="text">{run.machine ? processor(run.machine) : "–"}</td>
              <td class="text">{run.version?.split(",")[0] ?? "–"}</td>
              <td class="text">
                {run.has_report ? <ReportLink run={run} /> : run.has_summary ? "figures only" : "unfinished"}
              </td>
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
      open full page
    </a>
  );
}

function Report({ run }: { run: Run }) {
  const title = `Report of ${run.scenario ?? run.name}, ${run.begun ?? ""}`;
  const [address, setAddress] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    if (!run.has_report) return;
    withTicket(file(run.name, "report.html")).then(setAddress, (error: unknown) => setProblem(problemOf(error).text));
  }, [run.name, run.has_report]);
  return (
    <figure class="report">
      <figcaption>{run.name}</figcaption>
      {run.has_report ? (
        address && <iframe src={address} title={title} sandbox="allow-scripts" />
      ) : run.has_summary ? (
        <div class="empty">
          <p>This run has figures but no report. Create the report in the folder of the runs:</p>
          <pre>
            thalweg bench export --store . --format html {run.name} --out {run.name}/report.html
          </pre>
        </div>
      ) : (
        <p class="empty">This run has no report: it is still in progress, or it was interrupted.</p>
      )}
      {problem && <p class="problem">{problem}.</p>}
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
