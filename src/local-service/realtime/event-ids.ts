/** The ids of the most recent events, limited so that neither memory nor the state file grows for ever. */
export class EventIds {
  static readonly most = 100_000;
  readonly #ids: Set<string>;

  constructor(ids: readonly string[] = []) {
    this.#ids = new Set(ids);
  }

  /** Adds an id; false if it is there already. */
  take(id: string): boolean {
    if (this.#ids.has(id)) return false;
    const [oldest] = this.#ids;
    if (this.#ids.size === EventIds.most && oldest !== undefined) this.#ids.delete(oldest);
    this.#ids.add(id);
    return true;
  }

  /** In the order in which they were added. */
  get all(): readonly string[] {
    return [...this.#ids];
  }
}
