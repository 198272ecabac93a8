/** What pages say when the server does not. */

import type { Problem } from "./ask.js";

interface Props {
  readonly problem: Problem;
  /** Of the page, if it is all that there is. */
  readonly isAll?: boolean;
}

export function Unreachable({ problem: { text, isSilent }, isAll = true }: Props) {
  const Title = isAll ? "h1" : "h2";
  return (
    <section class="empty" role="alert">
      <Title>{isSilent ? "The server cannot be reached" : "The server does not do this"}</Title>
      <p>
        {text}. This page tries again by itself.
        {isSilent && " Is the server running? It is started with"}
      </p>
      {isSilent && <pre>thalweg serve --demo</pre>}
    </section>
  );
}
