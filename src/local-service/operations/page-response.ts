import { faultyPage, isPageFault } from '../faults/faulty-page.js';
import { badRequest, type ServiceResponse } from '../http/response.js';
import type { PagePosition } from '../page-token.js';
import type { ServiceState } from '../service-state.js';
import { closing, type Listing, listingId, opening, type Paging, type PagingRules, parsePaging } from './listing.js';
import type { Call } from './operation.js';

const openingBytes = Buffer.from(opening);
const comma = 0x2c;
/** More bytes than opening, token and total can take. */
const envelopeBytes = 256;
const start: PagePosition = { position: 0, salt: 0 };
const noHeaders = {};

function pageFrom(listing: Listing, paging: Paging, from: PagePosition, state: ServiceState): ServiceResponse {
  const { positions, count, next, ...selected } = listing.select(from.position, paging.limit);
  const bytes = selected.bytes ?? count * listing.maxRecordBytes;
  const token = next < 0 ? null : state.pageTokens.issue(listing.id, { position: next, salt: 0 });
  const buffer = state.pageBuffers.take(envelopeBytes + bytes + count);
  buffer.set(openingBytes);
  let end = openingBytes.length;
  for (let at = 0; at < count; at += 1) {
    if (at > 0) {
      buffer[end] = comma;
      end += 1;
    }
    end = listing.write(positions[at] as number, buffer, end);
  }
  end += buffer.write(closing(token, state.endForm, paging.withTotal ? listing.total() : null), end, 'latin1');
  return {
    status: 200,
    headers: noHeaders,
    body: buffer.subarray(0, end),
    release: () => state.pageBuffers.give(buffer),
  };
}

/**
 * The response with one page of a list (specification, sections 2.5 and 4.1).
 * @throws {ServiceError} 400 for wrong parameters and for a token of another list or tenant
 */
export function pageResponse(
  call: Call,
  list: Listing,
  state: ServiceState,
  rules: Partial<PagingRules> = {},
): ServiceResponse {
  const listing = { ...list, id: listingId(`${call.tenant} ${list.id}`) };
  const paging = parsePaging(call.query, { maxLimit: state.maxPageSize, ...rules });
  const from = paging.token === undefined ? start : state.pageTokens.read(listing.id, paging.token);
  if (from === undefined) throw badRequest('next_token is not a token of this list');
  state.stats.pages += 1;
  const faults = call.faults.filter(isPageFault);
  if (faults.length > 0) return faultyPage({ listing, paging, from, faults }, state);
  return pageFrom(listing, paging, from, state);
}
