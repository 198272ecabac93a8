/** The form for a token. The app shows it after the server answered 401. */

import { useState } from "preact/hooks";
import { isAccepted, problemOf, setToken } from "./server.js";

/** @param taken - called when the server has accepted the token. */
export function TokenForm({ taken }: { taken(): void }) {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const offer = async (): Promise<void> => {
    const token = text.trim();
    try {
      if (await isAccepted(token)) {
        setToken(token);
        taken();
      } else setProblem("The server rejects this token");
    } catch (error) {
      setProblem(problemOf(error).text);
    }
  };
  return (
    <section class="empty">
      <h1>This server requires a token</h1>
      <p>
        Enter a token with the right to subscribe: a user’s token from your application (a JSON Web Token), or a token
        from the server’s settings (<code>--token</code>). The browser keeps it until you close this tab.
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
          Use this token
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
