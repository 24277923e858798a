/** The service has announced the end of a version of one of its APIs. */
export interface Deprecation {
  api: 'profile' | 'management' | 'realtime';
  /** The version that was sent; null if that API has none. */
  version: string | null;
  /** From when: ISO 8601, `true` without a date, else the service's text; null if only the end was announced. */
  deprecated: string | null;
  /** When it ends: ISO 8601, `true` without a date, else the service's text; null if that was not announced. */
  sunset: string | null;
}

export const apiNames: Record<Deprecation['api'], string> = {
  profile: 'Profile API',
  management: 'Management API',
  realtime: 'Real-time API',
};

/** An announcement in words. */
export function deprecationLine({ api, version, deprecated, sunset }: Deprecation): string {
  const what = `the ${apiNames[api]}${version === null ? '' : ` version ${version}`}`;
  const parts = [
    ...(deprecated === null ? [] : [deprecated === 'true' ? 'is deprecated' : `is deprecated from ${deprecated}`]),
    ...(sunset === null ? [] : [sunset === 'true' ? 'will end' : `ends ${sunset}`]),
  ];
  const next = version === null ? '' : '; set `api_versions` to a newer one before then';
  return `${what} ${parts.join(' and ')}, the service says${next}`;
}
