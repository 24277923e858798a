import { hashText, mix } from '../data/hash.js';
import { badRequest } from '../http/response.js';
import type { Fault, FaultKind } from './fault.js';

interface SetFault {
  readonly id: number;
  readonly fault: Fault;
  readonly matches: (line: string) => boolean;
  readonly key: number;
  seen: number;
  hits: number;
}

/** A fault, how many matching requests it has seen, and how many of them it has hit. */
type FaultReport = Fault & { readonly id: number; readonly seen: number; readonly hits: number };

const none: readonly Fault[] = [];

function matcher(match: string | undefined): (line: string) => boolean {
  if (match === undefined) return () => true;
  // A plain path begins with a slash too, but the text after its last slash is rarely a set of flags.
  const expression = /^\/(.*)\/([dgimsuvy]*)$/s.exec(match);
  if (expression === null) return (line) => line.includes(match);
  try {
    const pattern = new RegExp(expression[1] as string, expression[2]?.replaceAll(/[gy]/g, ''));
    return (line) => pattern.test(line);
  } catch {
    throw badRequest(`match ${match} is not a regular expression`);
  }
}

function plain(line: string): string {
  try {
    return decodeURIComponent(line);
  } catch {
    return line;
  }
}

/** Holds the faults, and decides which requests they hit. */
export class FaultInjector {
  readonly #seed: number;
  #faults: SetFault[] = [];
  #nextId = 1;

  constructor(seed: number) {
    this.#seed = seed;
  }

  /** @throws {ServiceError} 400 for a broken regular expression */
  set(fault: Fault): FaultReport {
    const id = this.#nextId;
    const entry = {
      id,
      fault,
      matches: matcher(fault.match),
      key: hashText(`${this.#seed} fault ${id}`),
      seen: 0,
      hits: 0,
    };
    this.#faults.push(entry);
    this.#nextId += 1;
    return this.#report(entry);
  }

  get reports(): readonly FaultReport[] {
    return this.#faults.map((entry) => this.#report(entry));
  }

  /** Whether a fault of this kind is set. */
  has(kind: FaultKind): boolean {
    return this.#faults.some(({ fault }) => fault.kind === kind);
  }

  /** Clears the fault with this id, or every fault. */
  clear(id?: number): void {
    this.#faults = id === undefined ? [] : this.#faults.filter((entry) => entry.id !== id);
  }

  /** The faults that hit this request, in the order in which they were set. Counts the request. */
  hits(method: string, url: string): readonly Fault[] {
    if (this.#faults.length === 0) return none;
    const line = `${method} ${url}`;
    const readable = plain(line);
    return this.#faults
      .filter((entry) => (entry.matches(line) || entry.matches(readable)) && this.#hit(entry))
      .map(({ fault }) => fault);
  }

  #hit(entry: SetFault): boolean {
    const { after, count, share } = entry.fault;
    entry.seen += 1;
    if (entry.seen <= after || (count !== undefined && entry.hits >= count)) return false;
    if (share !== undefined && mix(mix(entry.seen) + entry.key) / 0x1_0000_0000 >= share) return false;
    entry.hits += 1;
    return true;
  }

  #report({ id, fault, seen, hits }: SetFault): FaultReport {
    return { ...fault, id, seen, hits };
  }
}
