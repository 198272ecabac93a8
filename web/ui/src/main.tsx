import { render } from "preact";
// Before what the pages add to it.
import "./style.css";
import { App } from "./app.js";

const root = document.getElementById("app");
if (root) render(<App pathname={location.pathname} />, root);
