import { segmentMembersPageOperation } from '../api/realtime-api.js';
import { verbatim } from '../sdk/option.js';
import { source } from './declaration.js';
import { completeSource, type ListSource, type ListSourceInput, type RecordProperties } from './source.js';

const name = 'segment_members';

const properties: RecordProperties = {
  coverage: 'everything',
  declared: { segment_id: 'VARCHAR', profile_id: 'VARCHAR' },
  key: ['segment_id', 'profile_id'],
};

function memberList(segment: string): ListSourceInput {
  return {
    kind: 'list',
    added: { segment_id: segment },
    // Some deployments refuse the page tokens that they gave.
    distrustsTokens: true,
    // Some take no parameter at all, and respond with every member (published notes, Real-time API).
    plain: () => segmentMembersPageOperation(segment, {}),
    // It always has a total: no request asks for one.
    page: ({ token, limit }) => segmentMembersPageOperation(segment, { nextToken: token, limit }),
  };
}

/** The members of a segment, for code that reads the service without a stream. */
export function membersOfSegment(segment: string): ListSource {
  return completeSource({ name, ...properties }, memberList(segment), { segment });
}

/** The members of a real-time segment (specification, section 4.10). */
export const segmentMembers = source({
  name,
  description: 'The members of a real-time segment. Each run reports who entered and who left.',
  options: {
    segment: verbatim({ description: 'Id of the real-time segment.', example: 'seg-vip' }),
  },
  group: 'realtime',
  ...properties,
  hashesKey: true,
  pages: {},
  open: ({ segment }) => memberList(segment),
});
