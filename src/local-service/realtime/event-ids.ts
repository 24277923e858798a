/** Ids of events that have been taken; of the most recent ones, so that neither memory nor the state file grows for ever. */
export class EventIds {
  static readonly most = 100_000;
  readonly #ids: Set<string>;

  constructor(ids: readonly string[] = []) {
    this.#ids = new Set(ids);
  }

  /** False for one that was taken before. */
  take(id: string): boolean {
    if (this.#ids.has(id)) return false;
    const [oldest] = this.#ids;
    if (this.#ids.size === EventIds.most && oldest !== undefined) this.#ids.delete(oldest);
    this.#ids.add(id);
    return true;
  }

  /** In the order in which they came. */
  get all(): readonly string[] {
    return [...this.#ids];
  }
}
