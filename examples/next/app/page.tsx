import { Orders } from "./orders";

/** Each visit reads the newest orders. */
export const dynamic = "force-dynamic";

export default async function Page() {
  const server = process.env.THALWEG ?? "http://127.0.0.1:8080";
  const response = await fetch(`${server}/v1/topics/orders?newest=50`, { cache: "no-store" });
  const initial = response.ok ? await response.json() : undefined;
  return (
    <main>
      <h1>Orders</h1>
      <Orders initial={initial} />
    </main>
  );
}
