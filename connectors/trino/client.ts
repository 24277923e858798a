import {
  abortAfter,
  assertHttps,
  CdsyncError,
  HttpConnections,
  type HttpResponse,
  loadRefused,
  type Secret,
  silenceMs,
  sleep,
  unavailable,
} from '../../src/sdk/index.js';
import {
  type TrinoFailure,
  trinoConnectionError,
  trinoError,
  trinoFailureName,
  trinoHttpError,
} from './client-error.js';

/** The address of Trino, and the user there. */
export interface TrinoLogin {
  /** Scheme, host and port of the coordinator. */
  readonly url: string;
  readonly username: string;
  readonly password?: Secret | undefined;
  /** A JSON Web Token or an access token, instead of a password. */
  readonly token?: Secret | undefined;
  readonly catalog?: string | undefined;
  readonly schema?: string | undefined;
  /** Session properties by name, such as `query_max_run_time` or `iceberg.target_max_file_size`. */
  readonly properties?: ReadonlyMap<string, string> | undefined;
  /** What `system.runtime.queries` shows as the source of each statement. */
  readonly source: string;
}

/** The result of a statement. */
interface TrinoResult {
  readonly rows: readonly Readonly<Record<string, unknown>>[];
  /** The rows that the statement has written; undefined if it does not say. */
  readonly updateCount: number | undefined;
}

interface StatementResponse {
  readonly nextUri?: string;
  readonly columns?: readonly { readonly name: string }[];
  readonly data?: readonly (readonly unknown[])[];
  readonly updateCount?: number;
  readonly error?: TrinoFailure;
}

/** How long a server that is starting, or that is busy, is asked again, and how often a lost response is. */
interface TrinoPatience {
  readonly busyMs: number;
  /** A server responds to each request within seconds, however long its statement takes. */
  readonly silenceMs: number;
  readonly lostResponses: number;
  /** The first pause; each is twice as long as the one before, up to 2 s. */
  readonly pauseMs: number;
}

const usual: TrinoPatience = { busyMs: 60_000, silenceMs, lostResponses: 5, pauseMs: 100 };
const maxPauseMs = 2000;
const connectMs = 10_000;

/** The headers of every request, without those of the login: https://trino.io/docs/current/develop/client-protocol.html */
function contextHeaders({ username, catalog, schema, properties, source }: TrinoLogin): Record<string, string> {
  const session = [...(properties ?? [])].map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
  return {
    'x-trino-user': username,
    'x-trino-source': source,
    'x-trino-time-zone': 'UTC',
    // Without it, Trino cuts timestamps to milliseconds.
    'x-trino-client-capabilities': 'PARAMETRIC_DATETIME',
    ...(catalog === undefined ? {} : { 'x-trino-catalog': catalog }),
    ...(schema === undefined ? {} : { 'x-trino-schema': schema }),
    ...(session.length === 0 ? {} : { 'x-trino-session': session.join(',') }),
  };
}

function authorization({ username, password, token }: TrinoLogin): Record<string, string> {
  if (token !== undefined) return { authorization: `Bearer ${token.reveal()}` };
  if (password === undefined) return {};
  return { authorization: `Basic ${Buffer.from(`${username}:${password.reveal()}`, 'utf8').toString('base64')}` };
}

/**
 * Opens a session of Trino. It connects with the first statement.
 * @param allowHttp whether a password or token may go to another machine without encryption
 * @throws {CdsyncError} `destination_plaintext`
 */
export function openTrino(login: TrinoLogin, allowHttp: boolean): TrinoSession {
  const hasSecret = login.password !== undefined || login.token !== undefined;
  assertHttps(new URL(login.url), hasSecret && 'the login and all rows', allowHttp);
  return new TrinoSession(login);
}

/**
 * Statements of Trino by its HTTP protocol, one at a time. Each is a transaction. Every failure becomes an error of
 * cdsync.
 */
export class TrinoSession {
  readonly #http: HttpConnections;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #patience: TrinoPatience;
  #stopping = new AbortController();
  /** The path that continues, or ends, the statement under way. */
  #next: string | undefined;

  /** Sends no request. */
  constructor(login: TrinoLogin, patience: Partial<TrinoPatience> = {}) {
    this.#patience = { ...usual, ...patience };
    const { silenceMs } = this.#patience;
    this.#http = new HttpConnections(new URL(login.url), { connections: 2, connectMs, silenceMs });
    this.#headers = { ...contextHeaders(login), ...authorization(login) };
  }

  /** Runs a statement to its end. @throws {CdsyncError} see `client-error.ts`; `destination_unavailable` after {@link stop} */
  async run(sql: string): Promise<TrinoResult> {
    const until = Date.now() + this.#patience.busyMs;
    for (let pauseMs = this.#patience.pauseMs; ; pauseMs *= 2) {
      try {
        return await this.#once(sql);
      } catch (error) {
        // A statement that a starting server refuses has not begun.
        if (trinoFailureName(error) !== 'SERVER_STARTING_UP' || Date.now() > until) throw error;
        await this.#pause(pauseMs);
      }
    }
  }

  async rows(sql: string): Promise<TrinoResult['rows']> {
    return (await this.run(sql)).rows;
  }

  /** The result of a query that returns one number. */
  async number(sql: string): Promise<number> {
    const [row] = await this.rows(sql);
    return Number(Object.values(row ?? {})[0] ?? 0);
  }

  /** Runs a statement even after a stop. */
  async cleanUp(sql: string): Promise<void> {
    const stopping = this.#stopping;
    this.#stopping = new AbortController();
    try {
      await this.#once(sql);
    } finally {
      this.#stopping = stopping;
    }
  }

  /** Cancels the statement under way. From now on only `cleanUp` works. */
  stop(): void {
    this.#stopping.abort();
  }

  async close(): Promise<void> {
    await this.#http.close().catch(() => undefined);
  }

  async #once(sql: string): Promise<TrinoResult> {
    const rows: Record<string, unknown>[] = [];
    let updateCount: number | undefined;
    try {
      let response = await this.#request({ method: 'POST', path: '/v1/statement', body: sql });
      for (;;) {
        this.#next = response.nextUri === undefined ? undefined : pathOf(response.nextUri);
        if (response.error !== undefined) throw trinoError(response.error);
        updateCount = response.updateCount ?? updateCount;
        for (const values of response.data ?? [])
          rows.push(Object.fromEntries((response.columns ?? []).map(({ name }, index) => [name, values[index]])));
        if (this.#next === undefined) return { rows, updateCount };
        response = await this.#request({ method: 'GET', path: this.#next, body: null });
      }
    } finally {
      await this.#cancel();
    }
  }

  /** Ends a statement whose result is no longer read: Trino would let it run for minutes. */
  async #cancel(): Promise<void> {
    const path = this.#next;
    this.#next = undefined;
    if (path === undefined) return;
    const request = { method: 'DELETE', path, headers: this.#headers } as const;
    await this.#http.send(request, abortAfter(connectMs)).catch(() => undefined);
  }

  /** Repeats a request if the protocol allows it: a busy server has not taken it, and a response can be read twice. */
  async #request(request: { method: 'GET' | 'POST'; path: string; body: string | null }): Promise<StatementResponse> {
    const until = Date.now() + this.#patience.busyMs;
    let lost = 0;
    for (let pauseMs = this.#patience.pauseMs; ; pauseMs *= 2) {
      try {
        const { status, body } = await this.#exchange(request);
        if (status === 200) return parsed(body);
        const error = trinoHttpError(status, body);
        if (error.kind !== 'retryable' || status === 410 || Date.now() > until) throw error;
      } catch (thrown) {
        if (this.#stopping.signal.aborted) throw unavailable('the load was stopped');
        if (thrown instanceof CdsyncError) throw thrown;
        const error = trinoConnectionError(thrown);
        lost += 1;
        if (request.method === 'POST' || error.kind !== 'retryable' || lost > this.#patience.lostResponses) throw error;
      }
      await this.#pause(pauseMs);
    }
  }

  #exchange(request: { method: 'GET' | 'POST'; path: string; body: string | null }): Promise<HttpResponse> {
    const type = request.body === null ? {} : { 'content-type': 'text/plain; charset=utf-8' };
    return this.#http.send({ ...request, headers: { ...this.#headers, ...type } }, this.#stopping.signal);
  }

  async #pause(ms: number): Promise<void> {
    await sleep(Math.min(ms, maxPauseMs), this.#stopping.signal).catch(() => {
      throw unavailable('the load was stopped');
    });
  }
}

/**
 * The path of the next request. Host and scheme stay those of the configuration: a proxy may hide the server's own, and the login
 * goes nowhere else.
 */
function pathOf(nextUri: string): string {
  const { pathname, search } = new URL(nextUri, 'http://trino');
  return pathname + search;
}

function parsed(text: string): StatementResponse {
  try {
    const response: unknown = JSON.parse(text);
    if (typeof response === 'object' && response !== null && 'id' in response) return response as StatementResponse;
  } catch {
    // Refused below: the text may be any page.
  }
  throw loadRefused('the response is not from a Trino coordinator: it is not a result of a statement', {
    hint: 'is `url` the address of the coordinator, such as https://trino.example.com:8443?',
  });
}
