import { render } from "preact";
// The style sheets of pages override this one: it comes first.
import "./style.css";
import { App } from "./app.js";

const root = document.getElementById("app");
if (root) render(<App pathname={location.pathname} />, root);
