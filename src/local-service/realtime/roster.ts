/**
 * Which people a collection holds: evenly spread ones, also among those who come later. Arithmetic converts a place into
 * a number and back.
 */
export class MemberSet {
  readonly #size: number;
  readonly #people: number;

  /** @param size how many of the first `people` it holds, at most all of them */
  constructor(size: number, people: number) {
    this.#size = size;
    this.#people = people;
  }

  /** The number of the person at a place; infinity if the collection holds nobody. */
  numberAt(place: number): number {
    return this.#size === 0 ? Number.POSITIVE_INFINITY : Math.ceil(((place + 1) * this.#people) / this.#size) - 1;
  }

  /** The place of a person; -1 if the collection does not hold the person. */
  placeOf(number: number): number {
    if (this.#size === 0) return -1;
    const place = Math.floor(((number + 1) * this.#size) / this.#people) - 1;
    return this.numberAt(place) === number ? place : -1;
  }
}
