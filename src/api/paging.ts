/** The parameters that every list of the service takes (specification, section 4.1). */
export interface PageRequest {
  /** Null or empty asks for the first page. */
  readonly nextToken?: string | null;
  /** Most records in the page. */
  readonly limit?: number;
  /** Asks for the total, which can be expensive for the service. */
  readonly withTotal?: boolean;
}

export type QueryParameters = (readonly [string, string])[];

/** The query parameters of a list. An empty or null token must not be sent (specification, section 4.1). */
export function paging({ nextToken, limit, withTotal }: PageRequest): QueryParameters {
  const query: QueryParameters = [];
  if (limit !== undefined) query.push(['limit', String(limit)]);
  if (nextToken) query.push(['next_token', nextToken]);
  if (withTotal === true) query.push(['with_total', 'true']);
  return query;
}

/** The parameters that are defined, under the service's names. */
export function given(parameters: Readonly<Record<string, string | undefined>>): QueryParameters {
  return Object.entries(parameters).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
}
