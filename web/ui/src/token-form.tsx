/** Asks the reader for the token that the server wants. */

import { useState } from "preact/hooks";
import { isAccepted, problemOf, setToken } from "./server.js";

/** @param taken - is called when the server has taken it. */
export function TokenForm({ taken }: { taken(): void }) {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const offer = async (): Promise<void> => {
    const token = text.trim();
    try {
      if (await isAccepted(token)) {
        setToken(token);
        taken();
      } else setProblem("The server does not take this token");
    } catch (error) {
      setProblem(problemOf(error).text);
    }
  };
  return (
    <section class="empty">
      <h1>This server asks for a token</h1>
      <p>
        Any token that lets you subscribe will do: a user’s token, as your application gets it (a JSON Web Token), or a
        token that the server was started with (<code>--subscribe-token</code>, <code>--publish-token</code>,{" "}
        <code>--token</code>). This tab keeps it until it is closed.
      </p>
      <form
        class="controls"
        onSubmit={(event) => {
          event.preventDefault();
          setProblem(null);
          void offer();
        }}
      >
        <label class="token">
          Token
          <input
            type="password"
            autocomplete="off"
            required
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary">
          Use it
        </button>
      </form>
      {problem && (
        <p class="problem" role="alert">
          {problem}.
        </p>
      )}
    </section>
  );
}
