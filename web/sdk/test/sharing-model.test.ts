/**
 * A model test by seed: subscriptions to one topic (fast and slow listeners, and loops) join and leave while batches
 * arrive, and the topic may end. Each gets exactly the batches after it has joined, in order. The waiting bytes are
 * those that the slowest has not processed; they are never negative, and 0 in the end.
 */

import { expect, it } from "vitest";
import { ThalwegError } from "../src/errors.js";
import { type Owner, type SharedSubscription, subscribe } from "../src/sharing.js";
import type { Batch, Subscription } from "../src/subscription.js";
import { seeded } from "./random.js";

const SEEDS = Number(process.env["THALWEG_SEEDS"] ?? 300);
const STEPS = 80;

interface Reader {
  subscription: Subscription<number>;
  /** Number of the first batch that it must get. */
  first: number;
  /** Whether that batch had arrived before it joined. */
  isLate: boolean;
  had: number[];
  processed(): number;
  /** Processes the current batch, or requests the next one. */
  step(): void;
}

async function live(seed: number): Promise<void> {
  const random = seeded(seed);
  const upTo = (most: number): number => Math.floor(random() * most);
  const isValue = random() < 0.5;
  const topics = new Map<string, SharedSubscription>();
  const batches: Batch<number>[] = [];
  const readers = new Set<Reader>();
  const acks: (string | null)[] = [];
  let shared: SharedSubscription | undefined;
  let waiting = 0;
  let acksExpected = 0;
  /** Batches before this one are processed by all. */
  let released = 0;
  const wrong: unknown[] = [];
  const owner: Owner = {
    subscribe: (its) => void (shared = its),
    flow: {
      processed(_, bytes) {
        waiting -= bytes;
        expect(waiting, `seed ${seed}`).toBeGreaterThanOrEqual(0);
      },
      ack: ({ position }) => void acks.push(position),
    },
    unsubscribe: ({ topic }) => void topics.delete(topic),
  };

  /** Number of the next batch of the slowest subscription. */
  const slowest = (): number =>
    Math.min(batches.length, ...[...readers].map(({ first, processed }) => first + processed()));

  const release = (): void => void (released = Math.max(released, slowest()));

  const enter = (reader: Reader, batch: Batch<number>): void => {
    const number = batch.events[0] as number;
    const whole = { ...batches[number], previous: 0, changed: undefined };
    const isWhole = !reader.had.length && reader.isLate && JSON.stringify(batch) === JSON.stringify(whole);
    if (batch !== batches[number] && !isWhole) wrong.push(batch);
    reader.had.push(number);
  };

  const join = (): void => {
    const had: number[] = [];
    let done: (() => void) | undefined;
    let processed = 0;
    const kind = upTo(3);
    const isLate = isValue && batches.length > 0;
    const first = batches.length - (isLate ? 1 : 0);
    release();
    const options = { onError: () => {} };
    const listeners = [
      (batch: Batch<number>) => {
        enter(reader, batch);
        processed++;
      },
      async (batch: Batch<number>) => {
        enter(reader, batch);
        await new Promise<void>((go) => (done = go));
        processed++;
      },
      null,
    ];
    const subscription = subscribe<number>(topics, owner, "cars", options, listeners[kind] ?? null);
    const loop = kind === 2 ? subscription[Symbol.asyncIterator]() : null;
    let isAsking = false;
    const reader: Reader = {
      subscription,
      first,
      isLate,
      had,
      processed: () => (loop ? had.length - (isAsking || !had.length ? 0 : 1) : processed),
      step() {
        done?.();
        if (!loop || isAsking) return;
        isAsking = true;
        loop.next().then(
          ({ value }) => {
            isAsking = false;
            // A loop that is left may have got a batch just before.
            if (value && readers.has(reader)) enter(reader, value);
          },
          () => {},
        );
      },
    };
    readers.add(reader);
  };

  const any = (): Reader | undefined => [...readers][upTo(readers.size)];

  const leave = (reader: Reader): void => {
    readers.delete(reader);
    release();
    reader.subscription.close();
    if (!readers.size) released = batches.length = 0;
  };

  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 12; turn++) await Promise.resolve();
  };

  const check = (): void => {
    release();
    const bytes = batches.slice(released).reduce((sum, batch) => sum + batch.bytes, 0);
    expect(wrong, `seed ${seed}`).toEqual([]);
    expect(waiting, `seed ${seed}`).toBe(bytes);
    for (const { first, had } of readers) {
      expect(had, `seed ${seed}`).toEqual(had.map((_, index) => first + index));
    }
  };

  const take = (): void => {
    if (!topics.size) return;
    const event = batches.length;
    const batch: Batch<number> = {
      topic: "cars",
      position: `e.${event + 1}`,
      first: event + 1,
      events: [event],
      gap: null,
      bytes: 1 + upTo(100),
      ...(isValue && { previous: event, changed: ["/any"] }),
    };
    batches.push(batch);
    waiting += batch.bytes;
    shared?.take(batch);
  };

  const ack = async (): Promise<void> => {
    // A loop may have got a batch that it has not seen yet: an ack would declare that processed.
    await settle();
    const reader = any();
    if (!reader || reader.processed() < reader.had.length) return;
    const before = acks.length;
    reader.subscription.ack();
    // At once if no subscription is slower, otherwise when none is.
    if (slowest() >= reader.first + reader.processed()) expect(acks.length, `seed ${seed}`).toBe(before + 1);
    acksExpected++;
  };

  const steps: (() => void | Promise<void>)[] = [
    take,
    take,
    take,
    join,
    () => any()?.step(),
    () => any()?.step(),
    () => any()?.step(),
    () => any()?.step(),
    ack,
    () => {
      const reader = any();
      if (reader) leave(reader);
    },
  ];
  for (let step = 0; step < STEPS; step++) {
    const pending = (steps[upTo(steps.length)] as (typeof steps)[number])();
    if (pending) await pending;
    if (random() < 0.7) {
      await settle();
      check();
    }
  }
  await settle();
  check();
  const hasEnded = random() < 0.5 && shared && topics.size > 0;
  if (hasEnded) {
    topics.clear();
    shared?.end(new ThalwegError("deleted", "somebody deleted it"), true);
  }
  if (random() < 0.5) {
    // All subscriptions process the remaining batches.
    for (let turn = 0; turn < 2 * STEPS; turn++) {
      for (const reader of readers) reader.step();
      await settle();
    }
    check();
    for (const { first, had } of readers) expect(first + had.length, `seed ${seed}`).toBe(batches.length);
    expect(acks.length, `seed ${seed}`).toBeLessThanOrEqual(acksExpected);
  }
  for (const reader of [...readers]) leave(reader);
  await settle();
  expect(waiting, `seed ${seed}`).toBe(0);
  expect(topics.size, `seed ${seed}`).toBe(0);
}

it(`${SEEDS} topics`, async () => {
  const only = process.env["THALWEG_SEED"];
  for (let seed = 1; seed <= SEEDS; seed++) {
    await live(only ? Number(only) : seed);
    if (only) return;
  }
});
