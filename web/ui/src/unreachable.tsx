/** The notice of a page whose request failed. */

import type { Problem } from "./server.js";

interface Props {
  readonly problem: Problem;
  /** Whether the page shows no other content. Then the title is the page's heading. */
  readonly isAll?: boolean;
}

export function Unreachable({ problem: { text, isUnreachable }, isAll = true }: Props) {
  const Title = isAll ? "h1" : "h2";
  return (
    <section class="empty" role="alert">
      <Title>{isUnreachable ? "The server cannot be reached" : "The server rejected this request"}</Title>
      <p>
        {text}. This page retries on its own.
        {isUnreachable && " Is the server running? Start it with"}
      </p>
      {isUnreachable && <pre>thalweg serve --demo</pre>}
    </section>
  );
}
