/** What pages say when the server does not. */

import type { Problem } from "./server.js";

interface Props {
  readonly problem: Problem;
  /** Of the page, if it is all that there is. */
  readonly isAll?: boolean;
}

export function Unreachable({ problem: { text, isUnreachable }, isAll = true }: Props) {
  const Title = isAll ? "h1" : "h2";
  return (
    <section class="empty" role="alert">
      <Title>{isUnreachable ? "The server cannot be reached" : "The server refuses this request"}</Title>
      <p>
        {text}. This page tries again by itself.
        {isUnreachable && " Is the server running? It is started with"}
      </p>
      {isUnreachable && <pre>thalweg serve --demo</pre>}
    </section>
  );
}
