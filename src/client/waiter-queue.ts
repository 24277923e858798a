/** One entry of a {@link WaiterQueue}: a promise that waits for its turn. */
export class Waiter<T> {
  previous: Waiter<T> | undefined;
  next: Waiter<T> | undefined;
  readonly resolve: (value: T) => void;
  readonly reject: (error: Error) => void;

  constructor(resolve: (value: T) => void, reject: (error: Error) => void) {
    this.resolve = resolve;
    this.reject = reject;
  }
}

/** First in, first out. Adding, taking, and removing from the middle each take constant time. */
export class WaiterQueue<T> {
  #first: Waiter<T> | undefined;
  #last: Waiter<T> | undefined;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  add(waiter: Waiter<T>): void {
    waiter.previous = this.#last;
    if (this.#last === undefined) this.#first = waiter;
    else this.#last.next = waiter;
    this.#last = waiter;
    this.#length += 1;
  }

  take(): Waiter<T> | undefined {
    const first = this.#first;
    if (first !== undefined) this.remove(first);
    return first;
  }

  /** The waiter must be in this queue. */
  remove(waiter: Waiter<T>): void {
    const { previous, next } = waiter;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    waiter.previous = undefined;
    waiter.next = undefined;
    this.#length -= 1;
  }
}
