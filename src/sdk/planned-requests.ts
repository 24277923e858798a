/** A request as it would go out; logins are `***`. */
export interface PlannedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface PlannedRequests {
  /** At least this number: long records and different URLs make more. */
  readonly kinds: readonly {
    readonly op: 'insert' | 'update' | 'delete';
    readonly method: string;
    readonly requests: number;
  }[];
  /** The shortest time in seconds that the destination's limits allow. */
  readonly seconds: number;
  readonly first: readonly PlannedRequest[];
}
