/** One request over all its attempts. */
export class Trial {
  /** Attempts so far, the present one included. */
  attempts = 0;
  /** When the present attempt began. */
  triedAt = 0;
  /** When an attempt failed first; undefined: none has. */
  failedAt: number | undefined;
  /** When it was last sent to find out whether the service is back. */
  probedAt = Number.NEGATIVE_INFINITY;
  /** Milliseconds of outages that were over, or under way, when it failed first: they do not count against its own patience. */
  outageMs = 0;

  begin(now: number): void {
    this.attempts += 1;
    this.triedAt = now;
  }
}
