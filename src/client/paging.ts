/** What every list of the service takes (specification, section 4.1). */
export interface PageRequest {
  /** Null or empty asks for the first page. */
  readonly nextToken?: string | null;
  /** Records at most. */
  readonly limit?: number;
  /** Asks for the total, which can be expensive for the service. */
  readonly withTotal?: boolean;
}

export type QueryParameters = (readonly [string, string])[];

/** The parameters of a list; a token that is empty or null must not be sent (specification, section 4.1). */
export function paging({ nextToken, limit, withTotal }: PageRequest): QueryParameters {
  const query: QueryParameters = [];
  if (limit !== undefined) query.push(['limit', String(limit)]);
  if (nextToken) query.push(['next_token', nextToken]);
  if (withTotal === true) query.push(['with_total', 'true']);
  return query;
}

/** Parameters that were given, by the names that the service has for them. */
export function given(parameters: Readonly<Record<string, string | undefined>>): QueryParameters {
  return Object.entries(parameters).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
}
