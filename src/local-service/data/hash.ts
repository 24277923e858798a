import { createHash } from 'node:crypto';

/** Scatters 32 bits over 32 bits, one to one (the finaliser of MurmurHash3). */
export function mix(value: number): number {
  let h = value | 0;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** The inverse of {@link mix}. */
export function unmix(mixed: number): number {
  let h = mixed | 0;
  h = Math.imul(h ^ (h >>> 16), 0x7ed1b41d);
  h = Math.imul(h ^ (h >>> 13) ^ (h >>> 26), 0xa5cb9243);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Hashes a text to 32 bits. */
export function hashText(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32LE(0);
}

/** A short series of pseudo-random numbers; the seed alone decides them. */
export class Draws {
  #state: number;

  constructor(seed: number) {
    this.#state = mix(seed ^ 0x2545f491) | 1;
  }

  /** In [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    return mix(this.#state) / 0x1_0000_0000;
  }

  /** An integer in [0, below). */
  below(below: number): number {
    return Math.floor(this.next() * below);
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)] as T;
  }
}
