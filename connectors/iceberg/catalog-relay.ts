import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { RestCatalog } from './catalog.js';
import { parseExact, stringifyExact } from './exact-json.js';
import type { TableDraft, Update } from './table-draft.js';

/** The requests that DuckDB may send. Without "transactions/commit", it commits each table alone. */
const endpoints = [
  'GET /v1/{prefix}/namespaces',
  'GET /v1/{prefix}/namespaces/{namespace}',
  'HEAD /v1/{prefix}/namespaces/{namespace}',
  'GET /v1/{prefix}/namespaces/{namespace}/tables',
  'GET /v1/{prefix}/namespaces/{namespace}/tables/{table}',
  'HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}',
  'POST /v1/{prefix}/namespaces/{namespace}/tables/{table}',
];

interface Reply {
  readonly status: number;
  readonly body?: unknown;
}

function failed(status: number, type: string, message: string): Reply {
  return { status, body: { error: { message, type, code: status } } };
}

/**
 * A catalog on the loopback interface, for DuckDB alone: it has one namespace, `ns`, with the tables of the real one. Of a table with
 * a draft it shows that, and DuckDB's commits go there: nothing reaches the real catalog from here. The token of the real catalog
 * stays in this process. A secret path keeps other users of the machine out.
 */
export class CatalogRelay {
  readonly #catalog: RestCatalog;
  readonly #server: Server;
  readonly #secret = randomUUID();
  readonly #drafts = new Map<string, TableDraft>();
  #failure: { readonly error: unknown } | undefined;

  private constructor(catalog: RestCatalog) {
    this.#catalog = catalog;
    this.#server = createServer((request, response) => {
      this.#take(request, response).catch(() => response.destroy());
    });
  }

  static async open(catalog: RestCatalog): Promise<CatalogRelay> {
    const relay = new CatalogRelay(catalog);
    await new Promise<void>((resolve, reject) => {
      relay.#server.once('error', reject);
      relay.#server.listen(0, '127.0.0.1', resolve);
    });
    relay.#server.unref();
    return relay;
  }

  /** The URL before `/v1`. */
  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/${this.#secret}`;
  }

  /** Shows a table as the draft has it from now on; undefined: as the real catalog has it. */
  show(table: string, draft: TableDraft | undefined): void {
    if (draft === undefined) this.#drafts.delete(table);
    else this.#drafts.set(table, draft);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** What went wrong between here and the catalog since the last call; else the given error. */
  explain(error: unknown): unknown {
    const failure = this.#failure;
    this.#failure = undefined;
    return failure === undefined ? error : failure.error;
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { status, body } = await this.#reply(request, Buffer.concat(chunks).toString('utf8')).catch((error) => {
      this.#failure ??= { error };
      return failed(500, 'ServiceFailure', 'see the error of the load');
    });
    const text = body === undefined || request.method === 'HEAD' ? '' : stringifyExact(body);
    response.writeHead(status, { 'content-type': 'application/json' }).end(text);
  }

  async #reply({ method = '', url = '' }: IncomingMessage, body: string): Promise<Reply> {
    // A client that takes this server for a proxy sends the whole address.
    const { pathname: path } = new URL(url, this.endpoint);
    const parts = path.split('/').slice(1).map(decodeURIComponent);
    if (parts[0] !== this.#secret || parts[1] !== 'v1') return failed(404, 'NotFoundException', 'no such address');
    const [what, , tables, table, more] = parts.slice(2);
    if (what === 'config') return { status: 200, body: { defaults: {}, overrides: {}, endpoints } };
    if (what !== 'namespaces' || more !== undefined) return { status: 204 };
    if (parts.length === 3) return { status: 200, body: { namespaces: [['ns']] } };
    if (tables === undefined) return { status: 200, body: { namespace: ['ns'], properties: {} } };
    if (table === undefined) {
      const names = await this.#catalog.tables();
      return { status: 200, body: { identifiers: names.map((name) => ({ namespace: ['ns'], name })) } };
    }
    const draft = this.#drafts.get(table);
    if (method !== 'POST') {
      const loaded = draft === undefined ? await this.#catalog.load(table) : draft.loaded;
      if (loaded === undefined) return failed(404, 'NoSuchTableException', `there is no table "${table}"`);
      return { status: 200, body: loaded };
    }
    if (draft === undefined) return failed(400, 'BadRequestException', 'no load of this table is under way');
    const { updates } = parseExact(body) as { updates: readonly Update[] };
    draft.apply(updates);
    return { status: 200, body: draft.loaded };
  }
}
