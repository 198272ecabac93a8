/** Calls from one end of a port to the other: told, or asked and answered. */

import { ThalwegError } from "./errors.js";

/** An error as it can be posted. @internal */
export interface Fault {
  code: string;
  message: string;
  status: number | null;
}

/** @internal */
export function fault(error: unknown): Fault {
  const message = (error as Error | undefined)?.message ?? String(error);
  const { code, status } = error instanceof ThalwegError ? error : { code: "failed", status: null };
  return { code, message, status };
}

/** @internal */
export function unfault({ code, message, status }: Fault): ThalwegError {
  return new ThalwegError(code, message, status);
}

/** What an end can be told. */
type Calls = Record<string, (...given: never[]) => unknown>;

interface Letter {
  name?: string;
  given?: never[];
  /** Of what is to be answered, or is. */
  id?: number;
  value?: unknown;
  fault?: Fault;
}

/** The other end. @internal */
export interface Far<There extends Calls> {
  /** Without an answer; what is told is done in order. */
  tell<Name extends keyof There & string>(name: Name, ...given: Parameters<There[Name]>): void;
  ask<Name extends keyof There & string>(
    name: Name,
    ...given: Parameters<There[Name]>
  ): Promise<Awaited<ReturnType<There[Name]>>>;
  /** What has been asked is answered with this. */
  end(error: ThalwegError): void;
}

/** This end of a port does what `here` has. @internal */
export function far<There extends Calls>(port: MessagePort, here: Calls): Far<There> {
  const waiting = new Map<number | undefined, { resolve(value: never): void; reject(error: ThalwegError): void }>();
  let last = 0;

  const answer = ({ id, value, fault }: Letter): void => {
    const asked = waiting.get(id);
    waiting.delete(id);
    if (fault) asked?.reject(unfault(fault));
    else asked?.resolve(value as never);
  };

  port.onmessage = async ({ data }: MessageEvent<Letter>) => {
    const { name, id, given = [] } = data;
    if (name === undefined) {
      answer(data);
      return;
    }
    try {
      const value = await here[name]?.(...given);
      if (id) port.postMessage({ id, value });
    } catch (error) {
      if (!id) throw error;
      port.postMessage({ id, fault: fault(error) });
    }
  };

  return {
    tell: (name, ...given) => port.postMessage({ name, given }),
    ask: (name, ...given) =>
      new Promise((resolve, reject) => {
        port.postMessage({ name, given, id: ++last });
        waiting.set(last, { resolve, reject });
      }),
    end(error) {
      for (const { reject } of waiting.values()) reject(error);
      waiting.clear();
    },
  };
}
