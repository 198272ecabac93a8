import { token } from "./token.js";

/** Answers `GET /token` in place of a backend. Every visitor is Alice here. */
const tokens = {
  name: "tokens",
  configureServer: ({ middlewares }) => void middlewares.use("/token", answer),
  configurePreviewServer: ({ middlewares }) => void middlewares.use("/token", answer),
};
const answer = (_, response) => response.end(token("alice"));

export default {
  plugins: [tokens],
  // The linked SDK has a React of its own for its tests, and hooks need the page's.
  resolve: { dedupe: ["react", "react-dom"] },
  // The page and the Thalweg server share an origin, as behind a reverse proxy.
  server: { proxy: { "/v1": { target: process.env.THALWEG ?? "http://127.0.0.1:8080", ws: true } } },
};
