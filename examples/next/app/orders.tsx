"use client";

import type { Envelope } from "thalweg";
import { SessionProvider, useTopic } from "thalweg/react";

interface Order {
  id: number;
  total: number;
}

export function Orders({ initial }: { initial?: Envelope | undefined }) {
  return (
    <SessionProvider>
      <List initial={initial} />
    </SessionProvider>
  );
}

/** The server renders `initial`. In the browser the list continues after it: no order is missing, and none appears twice. */
function List({ initial }: { initial?: Envelope | undefined }) {
  const { events, positions, status } = useTopic<Order>("orders", { keep: 50, initial });
  return (
    <>
      <p role="status">{status.state === "open" ? "Live" : "Not live"}</p>
      <ul>
        {events.map((order, index) => (
          <li key={positions[index]}>
            Order {order.id}: {order.total.toFixed(2)}
          </li>
        ))}
      </ul>
    </>
  );
}
