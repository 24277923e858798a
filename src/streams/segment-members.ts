import { segmentMembersPageOperation } from '../client/realtime-api.js';
import type { ListSource } from './source.js';

/** The members of a real-time segment (specification, section 4.10); some deployments give page tokens that they refuse. */
export function segmentMembersSource(segment: string): ListSource {
  return {
    kind: 'list',
    brings: 'everything',
    added: { segment_id: segment },
    identity: { source: 'segment_members', segment },
    declared: [
      { field: 'segment_id', type: 'VARCHAR' },
      { field: 'profile_id', type: 'VARCHAR' },
    ],
    container: null,
    key: ['segment_id', 'profile_id'],
    distrustsTokens: true,
    page: ({ token, limit, withTotal }) => segmentMembersPageOperation(segment, { nextToken: token, limit, withTotal }),
  };
}
