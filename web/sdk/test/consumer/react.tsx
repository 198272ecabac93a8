/** Components that an application may write with the published types. Only compiled. */

import type { ReactElement } from "react";
import type { Envelope, ThalwegError } from "thalweg";
import {
  type Presence,
  SessionProvider,
  type TopicEvents,
  useKeyed,
  usePresence,
  useSession,
  useTopic,
  useValue,
} from "thalweg/react";
import { connectInWorker, type WorkerOptions } from "thalweg/worker";

interface Car {
  id: number;
  speed: number;
}

interface Props {
  topic: string | null;
  initial?: Envelope;
  watched?: readonly string[];
}

export function Cars({ topic, initial, watched }: Props): ReactElement {
  const { status, publish, reconnect } = useSession();
  const cars: TopicEvents<Car> = useTopic<Car>(topic, {
    keep: 50,
    from: "earliest",
    interval: 250,
    policy: "latest",
    initial,
  });
  const error: ThalwegError | null = cars.error;
  const { value } = useValue<Car>("cars", { interval: 250, keys: ["c7"] });
  const { map, isWhole } = useKeyed<Car>("fleet", { keys: watched, prefix: "taxi/" });
  const here: Presence<{ name: string }> = usePresence<{ name: string }>("cars", { keys: ["ann"] as const });
  // @ts-expect-error a list of keys, not one key
  useTopic<Car>("fleet", { keys: "c7" });
  // @ts-expect-error there may be no value yet
  console.log(value.speed);
  // @ts-expect-error the list is read only
  cars.events.push({ id: 1, speed: 2 });
  // @ts-expect-error the provider closes the session
  useSession().close();
  return (
    <>
      <button type="button" onClick={reconnect} onBlur={() => publish("cars", { id: 1 })}>
        {status.state} {error?.code} {cars.gap?.missed}
      </button>
      {cars.events.map(({ speed }, index) => (
        <p key={cars.positions[index]}>{speed}</p>
      ))}
      {isWhole && [...map].map(([key, { speed }]) => <p key={key}>{speed}</p>)}
      {here.members.map(({ key, user, info }) => (
        <p key={key}>{user ?? info?.name}</p>
      ))}
    </>
  );
}

export function App(): ReactElement {
  return (
    <SessionProvider url="/" token={() => Promise.resolve("token")} onStatus={({ state }) => console.log(state)}>
      <SessionProvider
        connect={(url, options) =>
          connectInWorker(new Worker("worker.js", { type: "module" }), url, options as WorkerOptions)
        }
      >
        <Cars topic="cars" />
      </SessionProvider>
      <Cars topic={null} />
    </SessionProvider>
  );
}
