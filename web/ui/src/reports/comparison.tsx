/** Two runs' figures beside each other. */

import { useEffect, useState } from "preact/hooks";
import { brief } from "../format.js";
import { errorMessage, problemOf, request } from "../server.js";
import { type Comparison, compare, type Summary } from "./compare.js";
import { file } from "./runs.js";

interface Props {
  readonly first: string;
  readonly second: string;
}

export function ComparisonView({ first, second }: Props) {
  const [found, setFound] = useState<Comparison | string | null>(null);
  useEffect(() => {
    setFound(null);
    let isOver = false;
    Promise.all([summary(first), summary(second)])
      .then(([one, other]) => compared(one, other))
      .catch((error: unknown) => problemOf(error).text)
      .then((found) => !isOver && setFound(found));
    return () => void (isOver = true);
  }, [first, second]);

  if (found === null) return <p class="note">Reading both summaries.</p>;
  if (typeof found === "string") return <p class="problem">{found}.</p>;
  const { pairs, differences } = found;
  return (
    <section class="comparison">
      <h2>What both have</h2>
      <p class="note">
        Two runs at two times: they are not paired, so that whatever else the machine did then is in the ratio.
        {differences.length > 0 && ` They differ in ${differences.join("; ")}.`} To compare two programs, measure them
        in one run; <code>thalweg bench compare</code> has intervals.
      </p>
      {pairs.length ? (
        <div class="scroll" tabIndex={0} role="region" aria-label="What both runs have">
          <table>
            <thead>
              <tr>
                <th scope="col">cell</th>
                <th scope="col" class="text">
                  subject
                </th>
                <th scope="col" class="text">
                  figure
                </th>
                <th scope="col">first</th>
                <th scope="col">second</th>
                <th scope="col">second to first</th>
                <th scope="col" class="text">
                  ranges of the samples
                </th>
              </tr>
            </thead>
            <tbody>
              {pairs.map((pair) => (
                <tr key={[pair.part, pair.cell, pair.subject].join("\n")}>
                  <th scope="row">
                    {pair.part}: {pair.cell}
                  </th>
                  <td class="text">{pair.subject}</td>
                  <td class="text">{pair.figure}</td>
                  <td>{brief(pair.first.median)}</td>
                  <td>{brief(pair.second.median)}</td>
                  <td>{Number.isFinite(pair.ratio) ? `× ${pair.ratio.toPrecision(3)}` : "–"}</td>
                  <td class="text">{pair.overlaps === null ? "–" : pair.overlaps ? "overlap" : "do not overlap"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <p>They have no cell in common: pick two runs of one scenario.</p>
      )}
    </section>
  );
}

async function summary(run: string): Promise<Summary> {
  const response = await request(file(run, "summary.json"));
  if (!response.ok) throw new Error(await errorMessage(response));
  return (await response.json().catch(() => null)) as Summary;
}

/** What a file holds is whatever somebody wrote into it. */
function compared(one: Summary, other: Summary): Comparison | string {
  try {
    return compare(one, other);
  } catch {
    return "One of the two summaries is not as this version of the lab writes them: there is nothing to compare";
  }
}
