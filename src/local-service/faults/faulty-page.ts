import { badRequest, jsonResponse, ServiceError, type ServiceResponse } from '../http/response.js';
import { closing, type Listing, type Paging } from '../operations/listing.js';
import type { PagePosition } from '../page-token.js';
import type { ServiceState } from '../service-state.js';
import { type Fault, type FaultKind, faultOf } from './fault.js';

const kinds: ReadonlySet<FaultKind> = new Set<FaultKind>([
  'dead_token',
  'repeat_token',
  'loop',
  'duplicate',
  'empty_pages',
  'small_pages',
  'attributes_array',
  'garbage_record',
  'wrong_total',
  'no_data',
  'no_total',
  'empty',
  'end_form',
]);

/** Whether a fault changes pages of lists. */
export function isPageFault({ kind }: Fault): boolean {
  return kinds.has(kind);
}

/** A requested page, and the faults to apply to it. */
interface FaultyPage {
  readonly listing: Listing;
  readonly paging: Paging;
  readonly from: PagePosition;
  readonly faults: readonly Fault[];
}

function recordTexts({ listing, paging, from, faults }: FaultyPage) {
  const small = faultOf(faults, 'small_pages');
  const limit = small === undefined ? paging.limit : Math.min(paging.limit, small.size ?? Math.ceil(paging.limit / 2));
  const { positions, count, next } = listing.select(from.position, limit);
  const bytes = Buffer.allocUnsafe(listing.maxRecordBytes);
  const shown = Array.from({ length: count }, (_, at) => positions[at] as number);
  const texts = shown.map((position) => bytes.toString('utf8', 0, listing.write(position, bytes, 0)));
  return { texts, next, last: shown.at(-1) };
}

/** Records without attributes stay as they are. */
function attributesAsArray(text: string): string {
  try {
    const record = JSON.parse(text);
    return record.attributes === undefined ? text : JSON.stringify({ ...record, attributes: [record.attributes] });
  } catch {
    return text;
  }
}

/** The position that the page's token continues at; null at the end of the list. */
function nextPosition(page: FaultyPage, next: number, last: number | undefined): PagePosition | null {
  const { faults, from } = page;
  if (next < 0) return null;
  if (faultOf(faults, 'repeat_token') !== undefined && page.paging.token !== undefined) return from;
  const loop = faultOf(faults, 'loop');
  if (loop !== undefined) return { position: 0, salt: loop.fresh ? from.salt + 1 : 0 };
  const repeats = faultOf(faults, 'duplicate') !== undefined && last !== undefined && last > from.position;
  return { position: repeats ? last : next, salt: 0 };
}

function total({ listing, paging, faults }: FaultyPage): number | null {
  if (!paging.withTotal || faultOf(faults, 'no_total') !== undefined) return null;
  if (faultOf(faults, 'empty') !== undefined) return 0;
  const wrong = faultOf(faults, 'wrong_total');
  return wrong?.total ?? listing.total() + (wrong?.delta ?? 0);
}

/** @throws {ServiceError} if a fault refuses to count */
function assertNoTotal({ paging: { asksTotal }, faults }: FaultyPage): void {
  const status = faultOf(faults, 'no_total')?.status;
  if (asksTotal && status !== undefined) throw new ServiceError(status, 'with_total is not possible for this list');
}

function assertLiveToken({ paging: { token }, faults }: FaultyPage): void {
  const dead = faultOf(faults, 'dead_token');
  if (dead === undefined || token === undefined || dead.issued_before_now) return;
  if (dead.token === undefined || dead.token === token) throw badRequest('next_token has expired');
}

/**
 * The usual page with its faults applied.
 * @throws {ServiceError} 400 for a token that a fault has killed; the status with which a fault refuses to count
 */
export function faultyPage(page: FaultyPage, state: ServiceState): ServiceResponse {
  assertLiveToken(page);
  assertNoTotal(page);
  const { listing, from, faults } = page;
  const end = faultOf(faults, 'end_form')?.form ?? state.endForm;
  const envelope = (texts: readonly string[], to: PagePosition | null): ServiceResponse => {
    const token = to === null ? null : state.pageTokens.issue(listing.id, to);
    const body = Buffer.from(`{"data":[${texts.join(',')}${closing(token, end, total(page))}`);
    return { status: 200, headers: {}, body };
  };
  const bare = faultOf(faults, 'no_data');
  if (bare !== undefined) return jsonResponse(bare.form === 'null' ? { data: null } : {});
  if (faultOf(faults, 'empty') !== undefined) return envelope([], null);
  const empties = faultOf(faults, 'empty_pages');
  if (empties !== undefined && from.salt < empties.pages) return envelope([], { ...from, salt: from.salt + 1 });
  const { texts, next, last } = recordTexts(page);
  const wrapped = faultOf(faults, 'attributes_array') === undefined ? texts : texts.map(attributesAsArray);
  const garbage = faultOf(faults, 'garbage_record');
  if (garbage !== undefined && garbage.at < wrapped.length) wrapped[garbage.at] = garbage.record;
  return envelope(wrapped, nextPosition(page, next, last));
}
