/** Counts the requests since the service's start or the last reset. */
export class RequestStats {
  requests = 0;
  /** Responses with status 429. */
  throttled = 0;
  /** Pages of lists that were returned. */
  pages = 0;
  readonly #operations = new Map<string, number>();
  readonly #statuses = new Map<number, number>();

  arrived(operation: string): void {
    this.requests += 1;
    this.#operations.set(operation, (this.#operations.get(operation) ?? 0) + 1);
  }

  sent(status: number): void {
    if (status === 429) this.throttled += 1;
    this.#statuses.set(status, (this.#statuses.get(status) ?? 0) + 1);
  }

  reset(): void {
    this.requests = 0;
    this.throttled = 0;
    this.pages = 0;
    this.#operations.clear();
    this.#statuses.clear();
  }

  report() {
    return {
      requests: this.requests,
      throttled: this.throttled,
      pages: this.pages,
      operations: Object.fromEntries(this.#operations),
      statuses: Object.fromEntries(this.#statuses),
    };
  }
}
