/** The lab page: measures this browser, the network and the server. */

import { useEffect, useRef, useState } from "preact/hooks";
import { brief } from "../format.js";
import { type Problem, problemOf, sentence } from "../server.js";
import { Unreachable } from "../unreachable.js";
import { left } from "./findings.js";
import { Form } from "./form.js";
import { fetchOffer, type Offer } from "./offer.js";
import { label, type Plan } from "./plan.js";
import { parse, type Result } from "./result.js";
import { ResultView } from "./result-view.js";
import { type Progress, run } from "./run.js";
import { TITLES } from "./save.js";
import { StripPlot } from "./strip-plot.js";
import "./lab.css";

/** Time between two requests while the server does not answer, ms. */
const AGAIN_MS = 5000;

export function LabPage() {
  const [offer, setOffer] = useState<Offer | null>(null);
  /** The reason why the last request to the server failed. */
  const [lost, setLost] = useState<Problem | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [running, setRunning] = useState<{ plan: Plan; progress: Progress | null } | null>(null);
  const [result, setResult] = useState<Result | null>(null);
  const stop = useRef<AbortController | null>(null);

  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    const load = (): void => {
      fetchOffer().then(
        (found) => {
          setOffer(found);
          setLost(null);
        },
        (error: unknown) => {
          setLost(problemOf(error));
          timer = setTimeout(load, AGAIN_MS);
        },
      );
    };
    load();
    return () => {
      clearTimeout(timer);
      stop.current?.abort();
    };
  }, []);

  const start = (plan: Plan): void => {
    const abort = new AbortController();
    stop.current = abort;
    setProblem(null);
    setRunning({ plan, progress: null });
    run(plan, abort.signal, (progress) => setRunning({ plan, progress }))
      .then(setResult, (error: unknown) => setProblem(sentence(error)))
      .finally(() => setRunning(null));
  };
  const open = (file: File | undefined): void => {
    setProblem(null);
    file
      ?.text()
      .then((text) => setResult(parse(text)))
      .catch((error: unknown) => setProblem(sentence(error)));
  };

  return (
    <section class="lab">
      <h1>Lab</h1>
      {problem && (
        <p class="problem" role="alert">
          {problem}.
        </p>
      )}
      {running ? (
        <Running plan={running.plan} progress={running.progress} stop={() => stop.current?.abort()} />
      ) : result ? (
        <ResultView result={result} again={() => setResult(null)} />
      ) : (
        <>
          <p class="about">
            This page measures the browser, the network and the server. Keep the tab in the foreground and the machine
            otherwise idle during a run.
          </p>
          {lost && <Unreachable problem={lost} isAll={false} />}
          {offer && <Form offer={offer} start={start} />}
          {offer && (!offer.batches.length || !offer.runners) && <Missing offer={offer} />}
          <p class="reopen">
            <label>
              Open a saved result
              <input
                type="file"
                accept=".json,application/json"
                onChange={({ currentTarget }) => open(currentTarget.files?.[0])}
              />
            </label>
          </p>
        </>
      )}
    </section>
  );
}

function Running({ plan, progress, stop }: { plan: Plan; progress: Progress | null; stop(): void }) {
  const { done = 0, all = 1, leftMs = 0, cell = null, figure = null, samples = [], failures = [] } = progress ?? {};
  const unit = plan.experiment === "a1" ? "events/s" : "done";
  return (
    <div class="running">
      <h2>{TITLES[plan.experiment]}</h2>
      <p class="go">
        <progress value={done} max={all} aria-label="Samples measured" />
        <span role="status">
          {done} of {all}, {left(leftMs)}
        </span>
        <button type="button" onClick={stop}>
          Stop
        </button>
      </p>
      <p class="note now">
        {cell ? `${cell.transport}, ${label(cell)}${figure === null ? "" : `: ${brief(figure)} ${unit}`}` : "Starting"}
      </p>
      <StripPlot plan={plan} samples={samples} now={cell && { cell, figure }} />
      {failures.some(({ repeat }) => repeat > 0) && (
        <p class="problem">A cell cannot be measured: {failures.at(-1)?.why}.</p>
      )}
    </div>
  );
}

function Missing({ offer }: { offer: Offer }) {
  const what = offer.runners ? "experiment A1" : offer.batches.length ? "experiment B" : "the experiments";
  return (
    <div class="empty">
      <h2>This server has no source for {what}</h2>
      <p>Start the server with the demo, which has all sources:</p>
      <pre>thalweg serve --demo</pre>
      <p>or add the sources to your own server:</p>
      <pre>{`thalweg serve --token everybody,subscribe=**,publish=** \\
  --source lab/rows/100=constant,batch=100,interval=1ms \\
  --source lab/runner/0=runner`}</pre>
    </div>
  );
}
