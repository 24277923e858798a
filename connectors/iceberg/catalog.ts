import {
  assertHttps,
  CdsyncError,
  type HttpRequest,
  type HttpResponse,
  loadRefused,
  loginRefused,
  type OptionValues,
  orClose,
  permissionMissing,
  unavailable,
} from '../../src/sdk/index.js';
import { CatalogHttp, serverErrorType, serverMessage } from './catalog-http.js';
import { type CatalogLogin, CatalogTokens } from './catalog-login.js';
import { parseExact, stringifyExact } from './exact-json.js';
import type { IcebergShape } from './options.js';
import type { TableCommit } from './schema-update.js';
import type { LoadedTable } from './table-metadata.js';

type PlaceAndLogin = 'catalog' | 'warehouse' | 'namespace' | 'oauthUrl' | 'allowHttp' | keyof CatalogLogin;

interface CatalogOptions extends Pick<OptionValues<IcebergShape>, PlaceAndLogin> {
  /** Whether to ask the catalog for a login of the object store. */
  readonly vendsCredentials: boolean;
  readonly signal: AbortSignal;
}

interface TablePage {
  readonly identifiers?: readonly { readonly name: string }[];
  readonly 'next-page-token'?: string | null;
}

interface Configuration {
  readonly defaults?: Readonly<Record<string, string>>;
  readonly overrides?: Readonly<Record<string, string>>;
}

/** The catalog has refused a commit because the table has changed since it was read. */
export class CommitConflict extends Error {}

/** Requests that load tables at the same time. */
const atOnce = 8;

function segment(name: string): string {
  return encodeURIComponent(name);
}

/**
 * A catalog's prefix as part of a path. It may have several segments, and the catalog may have encoded it already, as other clients
 * expect: Nessie's is `main%7Clake`.
 */
function prefixPath(prefix: string): string {
  return prefix
    .split(/(%[0-9a-f]{2}|\/)/i)
    .map((part, index) => (index % 2 === 0 ? segment(part) : part))
    .join('');
}

/** One namespace of an Iceberg REST catalog, by its documented protocol. */
export class RestCatalog {
  readonly namespace: readonly string[];
  /** For messages. */
  readonly host: string;
  readonly #options: CatalogOptions;
  readonly #http: CatalogHttp;
  readonly #logins: CatalogHttp;
  readonly #tokens: CatalogTokens;
  #prefix = '';

  private constructor(options: CatalogOptions) {
    const { signal, allowHttp, token, clientId, oauthUrl } = options;
    const hasSecret = token !== undefined || clientId !== undefined;
    const connections = { hasSecret, allowHttp, signal };
    this.#options = options;
    this.#http = new CatalogHttp(options.catalog.replace(/(?<!\/)\/+$/, '').replace(/\/v1$/, ''), connections);
    this.#logins = oauthUrl === undefined ? this.#http : new CatalogHttp(oauthUrl, connections);
    this.#tokens = new CatalogTokens(options, this.#logins, oauthUrl === undefined ? '/v1/oauth/tokens' : '');
    this.namespace = options.namespace.split('.');
    this.host = this.#http.host;
  }

  /**
   * Logs in and looks for the warehouse.
   * @throws {CdsyncError} `destination_login`, `destination_permission`, `destination_unavailable`, `destination_refused`
   */
  static async open(options: CatalogOptions): Promise<RestCatalog> {
    const catalog = new RestCatalog(options);
    await orClose(catalog, () => catalog.#configure());
    return catalog;
  }

  /** Whether the namespace is there. */
  async hasNamespace(): Promise<boolean> {
    const goal = `look for namespace ${this.#options.namespace}`;
    return (await this.#result({ method: 'GET', path: this.#namespacePath() }, goal, 404)) !== undefined;
  }

  /** Makes the namespace if it is missing. */
  async createNamespace(): Promise<void> {
    const body = JSON.stringify({ namespace: this.namespace, properties: {} });
    const goal = `create namespace ${this.#options.namespace}`;
    await this.#result({ method: 'POST', path: `${this.#root()}/namespaces`, body }, goal, 409);
  }

  /** Names of the tables of the namespace; none if there is no namespace. */
  async tables(): Promise<string[]> {
    const names: string[] = [];
    let pageToken = '';
    do {
      const path = `${this.#namespacePath()}/tables?pageToken=${segment(pageToken)}`;
      const page = await this.#result<TablePage>({ method: 'GET', path }, 'list tables', 404);
      if (page === undefined) return [];
      names.push(...(page.identifiers ?? []).map(({ name }) => name));
      pageToken = page['next-page-token'] ?? '';
    } while (pageToken !== '');
    return names;
  }

  /** @returns undefined if there is no such table */
  async load(table: string): Promise<LoadedTable | undefined> {
    const { vendsCredentials, allowHttp } = this.#options;
    const headers: Record<string, string> = vendsCredentials
      ? { 'x-iceberg-access-delegation': 'vended-credentials' }
      : {};
    const request = { method: 'GET', path: this.#tablePath(table), headers } as const;
    const loaded = await this.#result<LoadedTable>(request, `read table "${table}"`, 404);
    const logins = [loaded, ...(loaded?.['storage-credentials'] ?? [])];
    for (const url of logins.map((login) => login?.config?.['s3.endpoint'] ?? ''))
      if (URL.canParse(url)) assertHttps(new URL(url), 'the login of the object store', allowHttp);
    return loaded;
  }

  /** The tables of these names that are there, and that the login may read. */
  async loadAll(tables: readonly string[]): Promise<{ readonly name: string; readonly loaded: LoadedTable }[]> {
    const readable = (error: unknown) => {
      if (error instanceof CdsyncError && error.code === 'destination_permission') return undefined;
      throw error;
    };
    const loadedTables: { name: string; loaded: LoadedTable }[] = [];
    for (let from = 0; from < tables.length; from += atOnce) {
      const names = tables.slice(from, from + atOnce);
      const loaded = await Promise.all(names.map((name) => this.load(name).catch(readable)));
      for (const [index, name] of names.entries()) {
        const table = loaded[index];
        if (table !== undefined) loadedTables.push({ name, loaded: table });
      }
    }
    return loadedTables;
  }

  /** @param request as `createRequest` makes it @returns false if there is a table of the name, which stays as it is */
  async createTable(request: Record<string, unknown>): Promise<boolean> {
    const path = `${this.#namespacePath()}/tables`;
    const response = await this.#send({ method: 'POST', path, body: stringifyExact(request) });
    if (response.status === 409) return false;
    if (response.status === 404) throw namespaceMissing(this.#options.namespace);
    this.#parsed(response, `create table "${String(request.name)}"`);
    return true;
  }

  /**
   * Changes a table, if all requirements hold.
   * @throws {CommitConflict} if one does not
   * @throws {CdsyncError} `destination_unavailable` if it is unknown whether the table was changed
   */
  async commit(table: string, { requirements, updates }: TableCommit): Promise<void> {
    const identifier = { namespace: this.namespace, name: table };
    const body = stringifyExact({ identifier, requirements, updates });
    const response = await this.#send({ method: 'POST', path: this.#tablePath(table), body });
    if (response.status === 409) throw new CommitConflict(serverMessage(response.body));
    this.#parsed(response, `change table "${table}"`);
  }

  /** @returns whether the catalog was asked to remove the files too: some do not allow it */
  async drop(table: string): Promise<boolean> {
    const drop = (purge: boolean) =>
      this.#send({ method: 'DELETE', path: `${this.#tablePath(table)}?purgeRequested=${purge}` });
    let response = await drop(true);
    const removesFiles = response.status !== 403;
    if (!removesFiles) response = await drop(false);
    if (response.status !== 404) this.#parsed(response, `drop table "${table}"`);
    return removesFiles;
  }

  async close(): Promise<void> {
    await Promise.all([...new Set([this.#http, this.#logins])].map((http) => http.close()));
  }

  async #configure(): Promise<void> {
    const { warehouse } = this.#options;
    const query = warehouse === undefined ? '' : `?warehouse=${segment(warehouse)}`;
    const response = await this.#send({ method: 'GET', path: `/v1/config${query}` });
    const { status, body } = response;
    // Nessie responds with 500, and names the warehouse.
    const isUnknown = status >= 500 && serverMessage(body).includes(`'${warehouse}'`);
    if (status === 404 || ((status === 400 || isUnknown) && warehouse !== undefined)) {
      const isWarehouse = warehouse !== undefined && serverErrorType(body) !== '';
      throw loadRefused(
        isWarehouse
          ? `the catalog at ${this.host} has no warehouse "${warehouse}": ${serverMessage(body)}`
          : `there is no Iceberg catalog at ${this.host}${new URL(this.#options.catalog).pathname} (${status})`,
        { hint: isWarehouse ? 'check `warehouse`' : 'give `catalog` the part before /v1 in its addresses' },
      );
    }
    const { defaults, overrides } = this.#parsed<Configuration>(response, 'read its configuration');
    this.#prefix = prefixPath(overrides?.prefix ?? defaults?.prefix ?? '');
  }

  #root(): string {
    return this.#prefix === '' ? '/v1' : `/v1/${this.#prefix}`;
  }

  #namespacePath(): string {
    return `${this.#root()}/namespaces/${segment(this.namespace.join('\u001f'))}`;
  }

  #tablePath(table: string): string {
    return `${this.#namespacePath()}/tables/${segment(table)}`;
  }

  /** Sends a request, with another token if the catalog refuses the present one. */
  async #send(request: HttpRequest): Promise<HttpResponse> {
    const send = async () =>
      this.#http.send({ ...request, headers: { ...request.headers, ...(await this.#tokens.headers()) } });
    const response = await send();
    if ((response.status !== 401 && response.status !== 419) || !this.#tokens.canRenew) return response;
    this.#tokens.forget();
    return send();
  }

  /**
   * @param goal for messages
   * @param absent the status that means that there is no result
   * @throws {CdsyncError} unless the request succeeded
   */
  async #result<T>(request: HttpRequest, goal: string, absent?: number): Promise<T | undefined> {
    const response = await this.#send(request);
    return response.status === absent ? undefined : this.#parsed<T>(response, goal);
  }

  /** The body of a response. @throws {CdsyncError} unless the request succeeded */
  #parsed<T>({ status, body }: Pick<HttpResponse, 'status' | 'body'>, goal: string): T {
    if (status < 200 || status >= 300) throw catalogError(this.host, { status, body }, goal);
    try {
      return (body === '' ? {} : parseExact(body)) as T;
    } catch (cause) {
      throw loadRefused(`the catalog at ${this.host} has responded with something other than JSON`, {
        hint: 'is `catalog` the URL of an Iceberg REST catalog?',
        cause,
      });
    }
  }
}

/** The error for a namespace that is not there. */
export function namespaceMissing(namespace: string): CdsyncError {
  return new CdsyncError(`the catalog has no namespace ${namespace}`, {
    code: 'destination_refused',
    hint: 'create it there, or let cdsync do it: create_namespace: true',
  });
}

/** The error for the response to a request that failed. */
function catalogError(
  host: string,
  { status, body }: Pick<HttpResponse, 'status' | 'body'>,
  goal: string,
): CdsyncError {
  const said = serverMessage(body);
  const message = `the catalog at ${host} does not ${goal} (${status})${said === '' ? '' : `: ${said}`}`;
  if (status === 401 || status === 419)
    return loginRefused(message, { hint: 'check `token`, or `client_id` and `client_secret`' });
  if (status === 403) return permissionMissing(message, { hint: 'grant it to the login of `token` or `client_id`' });
  if (status === 429 || status >= 500) return unavailable(message);
  return loadRefused(message);
}
