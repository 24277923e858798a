import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Copy, countries, type ListModel } from './list-model.js';
import type { Bytes, Style } from './record-text.js';

/** A change of the list while it is read: a record is removed, and a copy may be put at another position. */
export interface Move {
  /** Pages that start at this position or later see the change. */
  readonly from: number;
  readonly take: number;
  /** The copy that is put into the list; undefined if the record is only removed. */
  readonly put: { readonly at: number; readonly copy: Copy } | undefined;
}

/** What happens to one page, once. */
export type Mishap = 'cut' | 'broken_record' | 'reset' | 'unavailable';

/** How the service serves one index in one run. All of it depends on requests alone, never on time. */
export interface ListPlan {
  readonly list: Pick<ListModel, 'index' | 'copies' | 'one'>;
  /** The list when its reading begins. */
  readonly copies: readonly Copy[];
  /** The list after a page token was refused. */
  readonly later: readonly Copy[];
  readonly moves: readonly Move[];
  /** The first token from this position on is refused, and all further ones of its chain. */
  readonly deadFrom: number | undefined;
  readonly mishaps: ReadonlyMap<number, Mishap>;
  readonly ignoresFilter: boolean;
  /** The number that is added to the true total; null for a response without a total. */
  readonly lie: number | null;
  /** How single records are written. */
  readonly style: Style;
  /** Between two records, and around the list. */
  readonly between: Bytes;
  readonly tokenFirst: boolean;
}

interface Served {
  readonly filter: string;
  readonly chain: number;
  /** Of the first record in the list; 0 for a record that was asked for by its key. */
  readonly position: number;
  readonly copies: readonly Copy[];
}

/** The pages that the service has returned for one index in the current run, and the tokens that it has refused. */
class Notices {
  readonly served: Served[] = [];
  readonly chains = new Map<string, number>();
  /** For each filter, the chain whose tokens are refused. */
  readonly dead = new Map<string, number>();
  readonly mishaps = new Set<string>();

  /**
   * A page that had to be requested again may be returned after the page that follows it. It counts at its place in the
   * list: of two copies of a key, the later one in the list is kept.
   */
  add(page: Served): void {
    const isBehind = ({ filter, chain, position }: Served) =>
      filter === page.filter && chain === page.chain && position > page.position;
    const at = this.served.findIndex(isBehind);
    this.served.splice(at < 0 ? this.served.length : at, 0, page);
  }
}

/** A customer data service with the lists of one run, as one side of a comparison sees it. */
export class ListService {
  readonly url: string;
  readonly #close: () => Promise<void>;
  #plans = new Map<string, ListPlan>();
  #notices = new Map<string, Notices>();
  #requests = 0;
  /** Called with the number of each request of the run, before it is answered. */
  onRequest: (number: number) => Promise<void> | void = () => undefined;

  private constructor(url: string, close: () => Promise<void>) {
    this.url = url;
    this.#close = close;
  }

  static async open(): Promise<ListService> {
    const server = createServer((request, response) => void service.#respond(request, response));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const service = new ListService(`http://127.0.0.1:${port}`, async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    return service;
  }

  close(): Promise<void> {
    return this.#close();
  }

  /** Number of requests in this run. */
  get requests(): number {
    return this.#requests;
  }

  begin(plans: readonly ListPlan[]): void {
    this.#plans = new Map(plans.map((plan) => [plan.list.index, plan]));
    this.#notices = new Map(plans.map((plan) => [plan.list.index, new Notices()]));
    this.#requests = 0;
    this.onRequest = () => undefined;
  }

  /** The copy of each key that was returned last in this run; those of refused chains do not count. */
  lastNotices(index: string): Map<string, Copy> {
    const notices = this.#notices.get(index) as Notices;
    const last = new Map<string, Copy>();
    for (const { filter, chain, copies } of notices.served) {
      if (chain <= (notices.dead.get(filter) ?? 0)) continue;
      for (const copy of copies) if (copy.id !== undefined) last.set(copy.id, copy);
    }
    return last;
  }

  /** Whether a page token of the index was refused in this run. */
  hasRefused(index: string): boolean {
    return (this.#notices.get(index)?.dead.size ?? 0) > 0;
  }

  async #respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#requests += 1;
    await this.onRequest(this.#requests);
    const { status, body, isTorn = false } = this.#respondTo(new URL(request.url ?? '', this.url));
    response.writeHead(status, { 'content-type': 'application/json', 'content-length': body.length });
    if (isTorn) response.write(Buffer.from(body.slice(0, body.length >> 1), 'latin1'), () => response.destroy());
    else response.end(Buffer.from(body, 'latin1'));
  }

  #respondTo({ pathname, searchParams }: URL): ListResponse {
    const [, , , index, , key] = pathname.split('/').map(decodeURIComponent);
    if (index === undefined) return this.#indexes();
    const plan = this.#plans.get(index);
    if (plan === undefined) return unknown;
    return key === undefined ? this.#page(plan, searchParams) : this.#single(plan, key);
  }

  #indexes(): ListResponse {
    const data = [...this.#plans.keys()].map((id) => ({ id, name: id }));
    return { status: 200, body: JSON.stringify({ data, next_token: '', total: data.length }) };
  }

  #single({ list, style }: ListPlan, key: string): ListResponse {
    const body = list.one(key, style);
    const copies = list.copies.filter(({ id }) => id === key);
    (this.#notices.get(list.index) as Notices).add({ filter: 'single', chain: 1, position: 0, copies });
    return body === undefined ? unknown : { status: 200, body };
  }

  #page(plan: ListPlan, query: URLSearchParams): ListResponse {
    const notices = this.#notices.get(plan.list.index) as Notices;
    const filter = JSON.stringify([...query].filter(([name]) => name.startsWith('filter[')));
    const limit = Number(query.get('limit'));
    if (query.get('with_total') === 'true') return total(plan, filter);
    const [chain, position] = tokenOf(query.get('next_token')) ?? [(notices.chains.get(filter) ?? 0) + 1, 0];
    const dead = notices.dead.get(filter);
    const dies = dead === undefined && plan.deadFrom !== undefined && position >= plan.deadFrom && position > 0;
    if (dies) notices.dead.set(filter, chain);
    if (dies || (chain <= (dead ?? 0) && position > 0))
      return { status: 400, body: '{"status":400,"message":"the token has expired"}' };
    const all = matching(plan, filter, { position, isLater: dead !== undefined });
    const copies = all.slice(position, position + limit);
    const next = position + limit < all.length ? `${chain}.${position + limit}` : '';
    const body = envelope(plan, copies, next);
    const mishap = plan.mishaps.get(position);
    const place = `${filter} ${chain} ${position}`;
    if (mishap !== undefined && !notices.mishaps.has(place)) {
      notices.mishaps.add(place);
      return after(mishap, body);
    }
    if (position === 0) notices.chains.set(filter, chain);
    notices.add({ filter, chain, position, copies });
    return { status: 200, body };
  }
}

interface ListResponse {
  readonly status: number;
  readonly body: Bytes;
  /** Whether the connection breaks in the middle of the body. */
  readonly isTorn?: boolean;
}

const unknown: ListResponse = { status: 404, body: '{"status":404,"message":"the requested entity does not exist"}' };

/** The response to a request that asks for the total, with no records. */
function total(plan: ListPlan, filter: string): ListResponse {
  const notices =
    plan.lie === null
      ? ''
      : `,"total":${Math.max(0, matching(plan, filter, { position: 0, isLater: false }).length + plan.lie)}`;
  return { status: 200, body: `{"data":[],"next_token":""${notices}}` };
}

function tokenOf(token: string | null): [chain: number, position: number] | undefined {
  return token === null ? undefined : (token.split('.').map(Number) as [number, number]);
}

/** The list as a page at this position finds it. */
function matching(
  { copies, later, moves, ignoresFilter }: ListPlan,
  filter: string,
  { position, isLater }: { readonly position: number; readonly isLater: boolean },
): Copy[] {
  const list = [...(isLater ? later : copies)];
  for (const { from, take, put } of moves) {
    if (position < from || list.length === 0) continue;
    list.splice(take % list.length, 1);
    if (put !== undefined) list.splice(put.at % (list.length + 1), 0, put.copy);
  }
  if (ignoresFilter) return list;
  const wanted = (JSON.parse(filter) as [string, string][]).map(([, value]) => value);
  return list.filter(({ country }) => wanted.every((value) => value === country));
}

function envelope({ between, tokenFirst }: ListPlan, page: readonly Copy[], next: string): Bytes {
  const edge = between.replace(',', '');
  const data = `"data":[${edge}${page.map(({ text }) => text).join(between)}${edge}]`;
  const token = `"next_token":"${next}"`;
  return tokenFirst ? `{${token},${data}}` : `{${data},${token}}`;
}

function after(mishap: Mishap, body: Bytes): ListResponse {
  switch (mishap) {
    case 'unavailable':
      return { status: 503, body: '{"status":503,"message":"try again"}' };
    case 'cut':
      return { status: 200, body: body.slice(0, body.length >> 1) };
    case 'broken_record':
      return { status: 200, body: body.replace('"attributes":', '"attributes"=') };
    case 'reset':
      return { status: 200, body, isTorn: true };
  }
}

/** The values that a partitioned reading asks for: one of them has no records, one country has no value. */
export const partitionValues = [...countries.slice(0, 3), 'FR'] as const;
