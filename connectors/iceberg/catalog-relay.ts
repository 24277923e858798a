import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { CdsyncError } from '../../src/sdk/index.js';
import type { RestCatalog } from './catalog.js';
import { parseExact, stringifyExact } from './exact-json.js';
import type { Update } from './load-commit.js';
import { CommitConflict } from './load-engine.js';
import type { LoadedTable } from './table-metadata.js';

/** A table as the engine sees it during a load, and what becomes of its commit. */
export interface Pinned {
  readonly table: string;
  readonly seen: LoadedTable;
  /** @throws {CommitConflict} and what {@link RestCatalog.commit} throws */
  commit(updates: readonly Update[]): Promise<void>;
}

/** What DuckDB may ask for. Without "transactions/commit", it commits each table by itself. */
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
 * Whether the catalog has certainly not made the commit. Only then may DuckDB hear of a failure: it removes the files that it has
 * written, and a commit whose answer was lost may need them.
 */
function isRefusal(error: unknown): boolean {
  if (error instanceof CommitConflict) return true;
  return error instanceof CdsyncError && (error.kind === 'fatal' || error.kind === 'auth');
}

/**
 * A catalog on the loopback interface, for DuckDB alone: it has one namespace, `ns`, with the tables of the real one. DuckDB commits
 * its snapshots here; the relay hands them to the load, which makes one commit of them and of its watermark. The token of the real
 * catalog stays in this process. A path that nobody else knows keeps other users of the machine out.
 */
export class CatalogRelay {
  readonly #catalog: RestCatalog;
  readonly #server: Server;
  readonly #secret = randomUUID();
  #pinned: Pinned | undefined;
  #failure: { readonly error: unknown } | undefined;
  #commits = 0;

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

  /**
   * Answers for one table with what is given, while `work` runs.
   * @returns whether the engine has committed anything
   * @throws what the commit threw, whatever the engine made of it; else what `work` throws
   */
  async during(pinned: Pinned, work: () => Promise<void>): Promise<boolean> {
    this.#pinned = pinned;
    this.#failure = undefined;
    this.#commits = 0;
    try {
      await work();
    } catch (error) {
      throw this.#told(error);
    } finally {
      this.#pinned = undefined;
    }
    if (this.#failure !== undefined) throw this.#told(undefined);
    return this.#commits > 0;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** What went wrong between here and the catalog since the last {@link during} began; else the given error. */
  explain(error: unknown): unknown {
    return this.#told(error);
  }

  #told(error: unknown): unknown {
    const failure = this.#failure;
    this.#failure = undefined;
    return failure === undefined ? error : failure.error;
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { status, body } = await this.#answer(request, Buffer.concat(chunks).toString('utf8')).catch((error) => {
      this.#failure ??= { error };
      return failed(500, 'ServiceFailure', 'see the error of the load');
    });
    const text = body === undefined || request.method === 'HEAD' ? '' : stringifyExact(body);
    response.writeHead(status, { 'content-type': 'application/json' }).end(text);
  }

  async #answer({ method = '', url = '' }: IncomingMessage, body: string): Promise<Reply> {
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
    return method === 'POST' ? this.#commit(table, body) : this.#load(table);
  }

  async #load(table: string): Promise<Reply> {
    const loaded = this.#pinned?.table === table ? this.#pinned.seen : await this.#catalog.load(table);
    if (loaded === undefined) return failed(404, 'NoSuchTableException', `there is no table "${table}"`);
    return { status: 200, body: loaded };
  }

  async #commit(table: string, body: string): Promise<Reply> {
    const pinned = this.#pinned;
    if (pinned === undefined || pinned.table !== table)
      return failed(400, 'BadRequestException', 'no load of this table is under way');
    const { updates } = parseExact(body) as { updates: readonly Update[] };
    const done = { status: 200, body: pinned.seen };
    this.#commits += 1;
    try {
      await pinned.commit(updates);
      return done;
    } catch (error) {
      this.#failure = { error };
      return isRefusal(error) ? failed(409, 'CommitFailedException', 'see the error of the load') : done;
    }
  }
}
