import type { LocalService } from '../../../src/local-service/service.js';
import { requestControl } from '../../fixtures/control.js';

export interface Envelope {
  data: { id: string; index_id: string; attributes: Record<string, unknown> }[];
  next_token?: string | null;
  total?: number;
}

export interface HttpResult {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape
  readonly body: any;
}

/** Makes requests as any client could, without knowledge of the service's code. */
export class Caller {
  readonly service: LocalService;
  /** Headers by name; an undefined value leaves the header out. */
  headers: Record<string, string | undefined>;

  constructor(service: LocalService, token = service.token, tenant = service.tenantId) {
    this.service = service;
    this.headers = { authorization: `Bearer ${token}`, 'service-tenant': tenant, 'api-version': '2025-07-31' };
  }

  async send(method: string, path: string, headers: Record<string, string | undefined> = {}): Promise<HttpResult> {
    const all = Object.entries({ ...this.headers, ...headers }).filter(([, value]) => value !== undefined);
    return readResponse(await fetch(this.service.url + path, { method, headers: all as [string, string][] }));
  }

  async get(path: string, headers: Record<string, string | undefined> = {}): Promise<HttpResult> {
    return this.send('GET', path, headers);
  }

  /** The body of a response, which must have status 200. */
  async read(path: string): Promise<Envelope> {
    const { status, body, text } = await this.get(path);
    if (status !== 200) throw new Error(`${path}: ${status} ${text}`);
    return body;
  }

  async indexId(name: string): Promise<string> {
    const { body } = await this.get('/api/indexes?limit=1000');
    return body.data.find((index: { name: string }) => index.name === name).id;
  }

  /** Every page of a list, in order. */
  async pages(path: string, most = 10_000): Promise<Envelope[]> {
    const pages: Envelope[] = [];
    let token: string | null | undefined;
    do {
      const parameter = token ? `${path.includes('?') ? '&' : '?'}next_token=${encodeURIComponent(token)}` : '';
      const page = await this.read(path + parameter);
      pages.push(page);
      token = page.next_token;
    } while (token && pages.length < most);
    return pages;
  }

  async records(path: string): Promise<Envelope['data']> {
    return (await this.pages(path)).flatMap(({ data }) => data);
  }

  async control(path: string, body: unknown = {}, method = 'POST'): Promise<HttpResult> {
    const init = method === 'GET' ? { method } : { method, body: JSON.stringify(body) };
    const response = await readResponse(await requestControl(this.service, path, init));
    if (response.status >= 400) throw new Error(`/_control/${path}: ${response.status} ${response.text}`);
    return response;
  }

  async clearFaults(): Promise<void> {
    await this.control('faults', {}, 'DELETE');
  }
}

export async function readResponse(response: Response): Promise<HttpResult> {
  const text = await response.text();
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {}
  return { status: response.status, headers: response.headers, text, body };
}
