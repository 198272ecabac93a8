import { render } from "preact";
// This style sheet comes first, so that those of the pages can override it.
import "./style.css";
import { App } from "./app.js";

const root = document.getElementById("app");
if (root) render(<App pathname={location.pathname} />, root);
