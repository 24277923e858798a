import { Caller, type HttpResult, readResponse } from './caller.js';

export interface Profile {
  collection_id: string;
  profile_id: string;
  attributes: Record<string, unknown>;
  created_at: string;
  updated_at: string;
  ticked_at: string;
  links: Record<string, string[]>;
}

/** Makes requests to the Real-time API, which needs no version. */
export class RealtimeCaller extends Caller {
  constructor(...options: ConstructorParameters<typeof Caller>) {
    super(...options);
    delete this.headers['api-version'];
  }

  async post(
    path: string,
    body: string | object,
    headers: Record<string, string | undefined> = {},
  ): Promise<HttpResult> {
    const type = { 'content-type': 'application/json' };
    const all = Object.entries({ ...this.headers, ...type, ...headers }).filter(([, value]) => value !== undefined);
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const init = { method: 'POST', headers: all as [string, string][], body: text };
    return readResponse(await fetch(this.service.url + path, init));
  }

  async event(event: object, stream = 'evs-1'): Promise<void> {
    const { status, text } = await this.post(`/prof/events/${stream}`, event);
    if (status !== 202) throw new Error(`event: ${status} ${text}`);
  }

  async lookup(keys: Record<string, string>, collection = 'col-1'): Promise<Profile> {
    const { status, text, body } = await this.post(`/prof/lookup/${collection}/keychain`, { keys });
    if (status !== 200) throw new Error(`lookup: ${status} ${text}`);
    return body;
  }

  async profile(id: string, collection = 'col-1', query = ''): Promise<Profile> {
    const { status, text, body } = await this.get(`/prof/profiles/${collection}/${id}${query}`);
    if (status !== 200) throw new Error(`profile: ${status} ${text}`);
    return body;
  }

  /** Every member of a segment, in the order of the list. */
  async members(segment: string, limit?: number): Promise<string[]> {
    const query = limit === undefined ? '' : `?limit=${limit}`;
    const records: unknown[] = await this.records(`/prof/segments/${segment}/profiles${query}`);
    return (records as { profile_id: string }[]).map(({ profile_id: id }) => id);
  }

  async segmentsOf(id: string, collection = 'col-1'): Promise<string[]> {
    const records: unknown[] = await this.records(`/prof/profiles/${collection}/${id}/segments`);
    return (records as { segment_id: string }[]).map(({ segment_id: segment }) => segment);
  }

  async total(collection = 'col-1'): Promise<number> {
    return (await this.get(`/prof/collections/${collection}/stats`)).body.total_profiles;
  }
}
