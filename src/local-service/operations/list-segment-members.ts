import type { Selected } from '../data/index-source.js';
import { faultOf } from '../faults/fault.js';
import { badRequest } from '../http/response.js';
import type { Segment } from '../realtime/segment.js';
import { type Listing, listingId, type PagingRules } from './listing.js';
import { type Call, type Operation, realtimeApi } from './operation.js';
import { pageResponse } from './page-response.js';
import { namedSegment, realtimeOf } from './realtime-api.js';

const maxMembers = 1_000_000;
const asPublished: PagingRules = { maxLimit: maxMembers, defaultLimit: maxMembers, alwaysTotal: true };
const record = (id: string) => `{"profile_id":"${id}"}`;
const maxRecordBytes = record('pe-########').length;

function membersOf(segment: Segment): Listing {
  return {
    id: listingId(`members of ${segment.id}`),
    maxRecordBytes,
    total: () => segment.total(),
    select: (from, limit) => segment.select(from, limit),
    write: (position, target, offset) => {
      const text = record(segment.collection.idAt(position));
      return offset + Buffer.from(target.buffer, target.byteOffset, target.byteLength).write(text, offset, 'latin1');
    },
  };
}

/** Some deployments do this: they take no parameters, and may leave members out. @throws {ServiceError} 400 */
function withoutParameters(call: Call, listing: Listing, most = maxMembers): Listing {
  if (call.query.length > 0) throw badRequest('this operation takes no query parameters');
  return { ...listing, select: () => ({ ...listing.select(0, most), next: -1 }) };
}

/** Some deployments do this: they always send a next token, but ignore it in requests. */
function withIgnoredToken(call: Call, listing: Listing): [Call, Listing] {
  const select = (from: number, limit: number): Selected => {
    const { positions, count, next } = listing.select(from, limit);
    return { positions, count, next: next < 0 ? count : next };
  };
  return [
    { ...call, query: call.query.filter(([name]) => name !== 'next_token') },
    { ...listing, select },
  ];
}

/** GET /segments/{segment-id}/profiles (specification, section 4.10). Without a limit, all members are in one page. It always has a total. */
export const listSegmentMembers: Operation = {
  method: 'GET',
  path: '/prof/segments/{segment-id}/profiles',
  guard: realtimeApi('real-time-segments:read', 'pii:read'),
  handle: (call, state) => {
    const listing = membersOf(namedSegment(realtimeOf(call, state), call));
    const whole = faultOf(call.faults, 'members_whole');
    if (whole !== undefined) {
      const rules = { ...asPublished, alwaysTotal: whole.total };
      return pageResponse(call, withoutParameters(call, listing, whole.most), state, rules);
    }
    const paged = faultOf(call.faults, 'members_paged');
    const rules = paged === undefined ? asPublished : { maxLimit: maxMembers, alwaysTotal: paged.total };
    const ignored = faultOf(call.faults, 'ignored_token') !== undefined;
    const [request, members] = ignored ? withIgnoredToken(call, listing) : [call, listing];
    return pageResponse(request, members, state, rules);
  },
};
