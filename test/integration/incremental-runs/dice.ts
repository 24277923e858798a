import { type Random, randomFrom } from '../../fault/random.js';

/** Decisions that a seed determines. */
export class Dice {
  readonly #random: Random;

  constructor(...seeds: readonly number[]) {
    this.#random = randomFrom(seeds.reduce((mixed, seed) => Math.imul(mixed ^ seed, 0x9e3779b1) + (mixed >>> 15), 7));
  }

  /** From 0 to below `below`. */
  whole(below: number): number {
    return Math.floor(this.#random() * below);
  }

  /** True once in `times`. */
  once(times: number): boolean {
    return this.#random() * times < 1;
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.whole(choices.length)] as T;
  }

  shuffled<T>(input: readonly T[]): T[] {
    const order = input.map((each) => [this.#random(), each] as const);
    return order.sort(([a], [b]) => a - b).map(([, each]) => each);
  }

  /** Separate dice, so that their results do not depend on how often others are thrown. */
  apart(): Dice {
    return new Dice(this.whole(2 ** 31));
  }
}
