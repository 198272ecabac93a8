import { useSession, useTopic, useValue } from "thalweg/react";

interface Order {
  id: number;
  total: number;
}

export function Dashboard() {
  return (
    <>
      <h1>Orders</h1>
      <Connection />
      <Newest />
      <Orders />
    </>
  );
}

/** The state of the connection, and a button for those who do not want to wait. */
function Connection() {
  const { status, reconnect } = useSession();
  return (
    <p role="status">
      {status.state === "open" ? "Live" : `Not live: ${status.reason ?? status.state}`}{" "}
      {status.state !== "open" && (
        <button type="button" onClick={reconnect}>
          Connect now
        </button>
      )}
    </p>
  );
}

/** The newest event. It shares the subscription of the list. */
function Newest() {
  const { value } = useValue<Order>("orders");
  return <p>Newest: {value ? `order ${value.id}` : "none yet"}</p>;
}

/** The newest 50 events. After a break the list continues: no order is missing, and none appears twice. */
function Orders() {
  const { events, positions, gap, error } = useTopic<Order>("orders", { keep: 50 });
  return (
    <>
      {error && <p role="alert">No longer live: {error.message}</p>}
      {gap && <p role="alert">{gap.missed ?? "Some"} orders are missing</p>}
      <table>
        <thead>
          <tr>
            <th>Order</th>
            <th>Total</th>
          </tr>
        </thead>
        <tbody>
          {events.map((order, index) => (
            <tr key={positions[index]}>
              <td>{order.id}</td>
              <td>{order.total.toFixed(2)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
