import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { SessionProvider } from "thalweg/react";
import { Dashboard } from "./dashboard";

async function fetchToken(): Promise<string> {
  const response = await fetch("/token");
  if (!response.ok) throw new Error(`no token: ${response.status}`);
  return response.text();
}

createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <SessionProvider token={fetchToken}>
      <Dashboard />
    </SessionProvider>
  </StrictMode>,
);
