import type { Socket } from 'node:net';
import type pg from 'pg';
import { CdsyncError } from '../core/errors.js';
import { printable } from '../core/printable.js';
import type { Secret } from '../core/secret.js';
import { withoutPostgresTls, withPostgresTls } from '../sdk/encryption.js';
import {
  type LeaseRequest,
  type LeaseResponse,
  type LeaseStore,
  LeaseStoreUnavailable,
  reclaimDelayMs,
} from './leases.js';

/** How long the database may take to connect, and to respond. */
const responseMs = 3_000;
/** The first wait after a failure, and the longest. */
const [firstRetryMs, maxRetryMs] = [250, 5_000];

const create = `SELECT pg_advisory_xact_lock(hashtext('cdsync'));
CREATE TABLE IF NOT EXISTS cdsync_budget (account text PRIMARY KEY, state jsonb NOT NULL) WITH (fillfactor = 50)`;

/**
 * One statement reads, decides and writes, so no lock is held while it waits for a client. PostgreSQL locks the row before
 * it evaluates the expression, so two processes together never get more than is free. The parameters are in the order of
 * {@link parametersOf}.
 */
const report = `INSERT INTO cdsync_budget AS b (account, state)
VALUES ($1, '{"answered": 0, "refused": 0, "pause_until": 0, "members": {}}')
ON CONFLICT (account) DO UPDATE SET state = (
  SELECT jsonb_build_object(
    'answered', (b.state->>'answered')::bigint + $9::bigint,
    'refused', (b.state->>'refused')::bigint + $10::bigint,
    'pause_until', greatest((b.state->>'pause_until')::bigint, CASE WHEN $11::bigint > 0 THEN t.now + $11::bigint ELSE 0 END),
    'members', others.members || jsonb_build_object($2::text, CASE
      WHEN (b.state->'members'->$2::text->>'number')::bigint >= $3::bigint THEN b.state->'members'->$2::text
      ELSE jsonb_build_object('number', $3::bigint, 'limit', $4::int, 'held', greatest($5::int, own.part), 'part', own.part,
        'used', $6::int, 'waiting', $7::boolean, 'until', t.now + $12::bigint + ${reclaimDelayMs}) END))
  FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS t,
    LATERAL (
      SELECT coalesce(jsonb_object_agg(key, value), '{}') AS members, coalesce(sum((value->>'held')::int), 0)::int AS held
      FROM jsonb_each(b.state->'members')
      WHERE key <> $2::text AND (value->>'until')::bigint > t.now
    ) AS others,
    LATERAL (SELECT least($8::int, greatest($14::int, $13::int - others.held)) AS part) AS own
)
RETURNING state || jsonb_build_object('now', floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS response`;

function parametersOf(of: LeaseRequest): unknown[] {
  const { target, total } = of.wanted();
  const said = [of.account, of.member, of.number, of.limit, of.held, of.used, of.waiting, target];
  return [...said, of.answered, of.refused, of.pauseMs, of.leaseMs, total, of.part];
}

/** SQLSTATEs of temporary failures: connection, deadlock, resources, locks, shutdown, a standby that is being promoted, files. */
const passing = /^(08|25006|25P0|40|53|55P03|57|58)/;

/**
 * A table in PostgreSQL with the leases of a fleet: one row an account. All its times are of the database's clock. One connection
 * serves all accounts; it is opened again after a failure.
 */
export class PostgresLeases implements LeaseStore {
  /** No load for a small database. */
  readonly reportsPerSecond = 16;
  readonly #url: Secret;
  readonly #notice: (line: string) => void;
  #connection: Promise<pg.Client> | undefined;
  #retryMs = firstRetryMs;
  #retryAt = Number.NEGATIVE_INFINITY;
  #isAway = false;
  #isClosed = false;

  /** @param notice called when the database is away, and when it is back */
  constructor(url: Secret, notice: (line: string) => void) {
    this.#url = url;
    this.#notice = notice;
  }

  async report(of: LeaseRequest): Promise<LeaseResponse> {
    if (performance.now() < this.#retryAt) throw new LeaseStoreUnavailable();
    try {
      this.#connection ??= this.#connect();
      const client = await this.#connection;
      const { rows } = await client.query<{ response: LeaseResponse }>({
        text: report,
        values: parametersOf(of),
      });
      this.#isBack();
      return (rows[0] as { response: LeaseResponse }).response;
    } catch (error) {
      throw this.#failure(error);
    }
  }

  notice(line: string): void {
    this.#notice(line);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#drop();
  }

  async #connect(): Promise<pg.Client> {
    const { default: driver } = await import('pg');
    const url = new URL(this.#url.reveal());
    const { host } = new driver.Client({ connectionString: withoutPostgresTls(url).href });
    const client = new driver.Client({
      connectionString: withPostgresTls(url, host, undefined).href,
      connectionTimeoutMillis: responseMs,
      query_timeout: responseMs,
      keepAlive: true,
      application_name: 'cdsync budget',
    });
    // An idle connection that breaks reports it here; the next statement fails anyhow.
    client.on('error', () => undefined);
    try {
      await client.connect();
      // A process that waits for nothing may end.
      (client.connection.stream as Socket).unref();
      const { rows } = await client.query("SELECT to_regclass('cdsync_budget') AS found");
      if (rows[0]?.found === null) await client.query(create);
      return client;
    } catch (error) {
      void client.end().catch(() => undefined);
      throw error;
    }
  }

  async #drop(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.then((client) => client.end()).catch(() => undefined);
  }

  #isBack(): void {
    this.#retryMs = firstRetryMs;
    if (!this.#isAway) return;
    this.#isAway = false;
    this.#notice('the database of the budget responds again');
  }

  #failure(error: unknown): Error {
    void this.#drop();
    if (error instanceof CdsyncError) return unusable(error.message, error.hint, error);
    const { code = '', message } = error as { code?: string; message: string };
    const isServers = /^[0-9A-Z]{5}$/.test(code) && !/^E[A-Z]+$/.test(code);
    if (isServers && !passing.test(code)) return unusable(message, hintFor(code), error);
    if (/^(ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|CERT_)/.test(code) || /support SSL/.test(message))
      return unusable(
        message,
        'for a certificate of a private authority, name its file in the URL: ?sslrootcert=…',
        error,
      );
    this.#retryAt = performance.now() + this.#retryMs;
    this.#retryMs = Math.min(maxRetryMs, this.#retryMs * 2);
    if (!this.#isAway && !this.#isClosed) {
      this.#isAway = true;
      // The driver's message about a lost connection means nothing to users.
      const reason = code || (/not queryable|terminated/.test(message) ? 'connection lost' : printable(message));
      this.#notice(`warning: the database of the budget does not respond (${reason}); requests wait until it does`);
    }
    return new LeaseStoreUnavailable();
  }
}

function unusable(message: string, hint: string | undefined, cause: unknown): CdsyncError {
  return new CdsyncError(`the database of service.budget.shared.postgres cannot be used: ${printable(message)}`, {
    code: 'budget_unusable',
    hint,
    cause,
  });
}

function hintFor(code: string): string {
  if (code === '3D000') return 'create the database, or correct the URL';
  if (code.startsWith('28')) return 'check user and password of the URL';
  if (code === '42501' || code === '3F000')
    return 'an owner can make the table and grant its use: CREATE TABLE cdsync_budget (account text PRIMARY KEY, state jsonb NOT NULL); GRANT SELECT, INSERT, UPDATE ON cdsync_budget TO …';
  return 'if the table cdsync_budget is from something else, name another database or schema (?options=-csearch_path%3Dname)';
}
