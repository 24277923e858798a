import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A row as requests send it. `v` grows with each change of a person. */
interface Sent {
  readonly id: string;
  readonly v: number;
  readonly email: string;
  readonly op: string;
}

/** The faults of the receiver with a request. */
export type Trouble =
  | 'none'
  | 'lost'
  | 'torn'
  | '500'
  | '429 seconds'
  | '429 date'
  | '429 reset'
  | '429 epoch'
  | 'redirect'
  | 'kill before'
  | 'kill stored'
  | 'kill answered';

const reset = () => Math.ceil(Date.now() / 1000) + 1;
const pauses: Readonly<Record<string, () => Record<string, string>>> = {
  '429 seconds': () => ({ 'retry-after': '1' }),
  '429 date': () => ({ 'retry-after': new Date(Date.now() + 1000).toUTCString() }),
  '429 reset': () => ({ 'ratelimit-remaining': '0', 'ratelimit-reset': '1' }),
  '429 epoch': () => ({ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(reset()) }),
};

/** A receiver that keeps its rows, and notes requests that must never arrive: an older row after a newer, and texts that are forbidden. */
export class PeopleApi {
  readonly rows = new Map<string, { readonly v: number; readonly email: string }>();
  readonly violations: string[] = [];
  /** Texts of persons who were erased, and of a column that is hidden. */
  readonly forbidden = new Set<string>();
  /** Each request counts down; at zero the trouble begins, once, or for ever. */
  trouble: { readonly kind: Trouble; at: number; readonly isLasting: boolean } | undefined;
  /** A person whose rows are answered with this status. */
  poisoned: { readonly id: string; readonly status: number } | undefined;
  kill: () => void = () => undefined;
  /** Rows that were there before, in the same state: repeated requests. */
  repeated = 0;
  requests = 0;
  readonly #newest = new Map<string, number>();
  readonly #server: Server;

  private constructor() {
    this.#server = createServer(async (request, response) => {
      let body = '';
      for await (const chunk of request) body += chunk;
      this.#take(request.method ?? '', request.url ?? '', body, response);
    });
  }

  static async open(): Promise<PeopleApi> {
    const api = new PeopleApi();
    await new Promise<void>((resolve) => api.#server.listen(0, '127.0.0.1', resolve));
    return api;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #take(method: string, path: string, body: string, response: ServerResponse): void {
    this.requests += 1;
    for (const text of this.forbidden) if (body.includes(text)) this.violations.push(`${text} arrived again`);
    const kind = this.#troubleNow();
    const store = () => this.#store(method, path, body);
    if (kind === 'kill before') {
      this.kill();
      return void response.destroy();
    }
    const pause = pauses[kind];
    if (pause !== undefined) return void response.writeHead(429, pause()).end();
    if (kind === '500') return void response.writeHead(500).end();
    if (kind === 'redirect') return void response.writeHead(307, { location: `${this.url}/moved` }).end();
    const { status, text } = store();
    if (kind === 'lost') return void response.destroy();
    if (kind === 'kill stored') {
      this.kill();
      return void response.destroy();
    }
    if (kind === 'torn') {
      response.writeHead(status, { 'content-length': '1000', 'content-type': 'application/json' });
      response.write(text.slice(0, 5));
      return void setImmediate(() => response.destroy());
    }
    if (kind === 'kill answered') response.once('finish', this.kill);
    response.writeHead(status, { 'content-type': 'application/json' }).end(text);
  }

  #troubleNow(): Trouble {
    if (this.trouble === undefined) return 'none';
    this.trouble.at -= 1;
    if (this.trouble.at > 0) return 'none';
    const { kind, isLasting } = this.trouble;
    if (!isLasting) this.trouble = undefined;
    return kind;
  }

  /** `PUT /people/ID` and `DELETE /people/ID` for one, `POST /batch` for many. */
  #store(method: string, path: string, body: string): { status: number; text: string } {
    if (path === '/moved') this.violations.push('a redirect was followed');
    if (path === '/batch') {
      const results = (JSON.parse(body) as Sent[]).map((sent) => ({ status: this.#row(sent) }));
      return { status: 207, text: JSON.stringify({ results }) };
    }
    const id = path.split('/')[2] ?? '';
    const sent = method === 'DELETE' ? { id, v: -1, email: '', op: 'delete' } : (JSON.parse(body) as Sent);
    return { status: this.#row(sent), text: '{}' };
  }

  #row({ id, v, email, op }: Sent): number {
    if (this.poisoned?.id === id) return this.poisoned.status;
    if (op === 'delete') {
      this.rows.delete(id);
      return 200;
    }
    const newest = this.#newest.get(id) ?? 0;
    if (v < newest) this.violations.push(`${id}: ${v} arrived after ${newest}`);
    // Of a profile that was merged away, another one has the e-mail: the delete is first.
    const isTaken = [...this.rows].some(([other, row]) => other !== id && row.email === email);
    if (isTaken) return 409;
    if (this.rows.get(id)?.v === v) this.repeated += 1;
    this.#newest.set(id, v);
    this.rows.set(id, { v, email });
    return 200;
  }
}
