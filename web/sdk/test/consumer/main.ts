/** Code that a page may write with the published types. Only compiled. */

import {
  type Batch,
  type ConnectOptions,
  connect,
  type Gap,
  type KeyedSubscription,
  type MemberEntry,
  type Session,
  type Status,
  type Subscription,
  ThalwegError,
} from "thalweg";
import { type ColumnBatch, type ColumnStream, columns } from "thalweg/arrow";
import { abilities, foreverFrame, published } from "thalweg/forever-frame";
import { connectInWorker } from "thalweg/worker";
import { host } from "thalweg/worker-host";

interface Car {
  id: number;
  speed: number;
}

const options: ConnectOptions = {
  transports: ["websocket", foreverFrame],
  volume: "high",
  token: async () => "token",
  onStatus: ({ state, transport, reason }: Status) => console.log(state, transport, reason),
};

export async function main(): Promise<void> {
  const session: Session = connect("https://live.example/", options);
  const cars: Subscription<Car> = session.subscribe<Car>("cars", { from: "earliest", interval: 250 });
  for await (const { events, gap, position } of cars) {
    const missed: Gap | null = gap;
    const speeds: number[] = events.map(({ speed }) => speed);
    console.log(missed?.missed, speeds, position.length);
  }
  const keyed: KeyedSubscription<Car> = session.map<Car>("cars", { interval: 250 });
  for await (const { changed, removed, isWhole } of keyed) {
    const speeds: (number | undefined)[] = changed.map((key) => keyed.map.get(key)?.speed);
    console.log(speeds, removed.length, isWhole);
    // @ts-expect-error the map is read only
    keyed.map.delete("a");
  }
  const people: KeyedSubscription<MemberEntry<Car>> = session.presence<Car>("rooms/7", {}, () => {
    for (const { user, since, info } of people.map.values()) console.log(user?.length, since + 1, info?.speed);
  });
  await session.publish({ topic: "cars", key: "a" }, null);
  session.subscribe<Car>("vans", {}, async (batch: Batch<Car>) => {
    // @ts-expect-error a car has no wings
    console.log(batch.events[0]?.wings);
  });
  session.use(foreverFrame);
  session.use(null);
  const back: { a: number } = await session.request({ a: 1 });
  const { first } = await session.publish("cars", back, first0());
  console.log(first, published(abilities("/")).length);
  // @ts-expect-error no transport is called so
  session.use("carrier-pigeon");
  // @ts-expect-error internal
  cars.take({});
  const elsewhere: Session = connectInWorker(new Worker("worker.js", { type: "module" }), "/", { window: 0 });
  elsewhere.close();
  const stream: ColumnStream = columns("/", "cars", { from: "earliest" }, ({ table, gap }: ColumnBatch) => {
    const speeds: ArrayLike<number | null> | undefined = table.getChild<number>("speed")?.toArray();
    for (const speed of table.getChild<number>("speed")?.toArray() ?? []) console.log(speed?.toFixed(1));
    // @ts-expect-error there may be no such column
    console.log(speeds.length, gap?.missed, table.at(0)?.["speed"]);
  });
  stream.close();
  host(new MessageChannel().port1);
  throw new ThalwegError("closed", "so it is");
}

function first0(): number {
  return 0;
}
