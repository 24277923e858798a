import { type AddressInfo, createServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { openTrino, type TrinoLogin, TrinoSession } from '../../../connectors/trino/client.js';
import { Secret } from '../../../src/core/secret.js';
import { type Outcome, TrinoCoordinator } from '../../fixtures/trino-coordinator.js';

/*
 * The other side is a small real HTTP server that speaks the documented protocol and notes everything that the real Trino would
 * refuse (`trino-coordinator.ts`). The real one is in test/conformance/connectors/trino.test.ts.
 */

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

async function coordinator(outcome: (sql: string) => Outcome = () => ({})): Promise<TrinoCoordinator> {
  const made = await TrinoCoordinator.open(outcome);
  open.push(made);
  return made;
}

function session(url: string, login: Partial<TrinoLogin> = {}, busyMs = 5000): TrinoSession {
  const made = new TrinoSession({ url, username: 'loader', source: 'cdsync-test', ...login }, { busyMs, pauseMs: 1 });
  open.push(made);
  return made;
}

async function failure(work: Promise<unknown>) {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  return error as { code: string; kind: string; message: string; hint?: string; causeQuotesValues: boolean };
}

describe('a statement of Trino', () => {
  it('is read page by page, with its rows by column and the number of rows written', async () => {
    const server = await coordinator(() => ({
      columns: ['id', 'n'],
      pages: [[['a', 1]], [], [['b', null]]],
      updateCount: 2,
    }));
    const { rows, updateCount } = await session(server.url).run('SELECT 1');
    expect(rows).toEqual([
      { id: 'a', n: 1 },
      { id: 'b', n: null },
    ]);
    expect(updateCount).toBe(2);
    expect(server.complaints).toEqual([]);
  });

  it('says who sends it, where to, and with which properties', async () => {
    const server = await coordinator();
    const properties = new Map([
      ['query_max_run_time', '2h'],
      ['lake.compression_codec', 'ZSTD, best'],
    ]);
    await session(server.url, { catalog: 'lake', schema: 'crm', properties, password: new Secret('pass:word') }).run(
      'SELECT 1',
    );
    expect(server.statements[0]?.headers).toMatchObject({
      'x-trino-user': 'loader',
      'x-trino-source': 'cdsync-test',
      'x-trino-catalog': 'lake',
      'x-trino-schema': 'crm',
      'x-trino-session': 'query_max_run_time=2h,lake.compression_codec=ZSTD%2C%20best',
      'x-trino-client-capabilities': 'PARAMETRIC_DATETIME',
      authorization: `Basic ${Buffer.from('loader:pass:word').toString('base64')}`,
    });
  });

  it('bears a token instead of a password', async () => {
    const server = await coordinator();
    await session(server.url, { token: new Secret('header.body.signature') }).run('SELECT 1');
    expect(server.statements[0]?.headers.authorization).toBe('Bearer header.body.signature');
  });

  it('fails soon at a server that takes it and never responds', async () => {
    const silent = createServer();
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    open.push({ close: async () => void silent.close() });
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const made = new TrinoSession({ url, username: 'loader', source: 'cdsync-test' }, { silenceMs: 100 });
    open.push(made);
    expect(await failure(made.run('SELECT 1'))).toMatchObject({ code: 'destination_unavailable', kind: 'retryable' });
  });

  it.each([429, 502, 503, 504])('is sent again to a server that responds %i', async (status) => {
    const server = await coordinator(() => ({ columns: ['n'], pages: [[[7]]] }));
    server.statuses.push(status, status);
    expect(await session(server.url).number('SELECT 7')).toBe(7);
    expect(server.statements).toHaveLength(1);
  });

  it('is sent again while the server is starting', async () => {
    let asked = 0;
    const starting = {
      message: 'Trino server is still initializing',
      errorName: 'SERVER_STARTING_UP',
      errorType: 'INTERNAL_ERROR',
    };
    const server = await coordinator(() => {
      asked += 1;
      return asked < 3 ? { error: starting } : { columns: ['n'], pages: [[[1]]] };
    });
    expect(await session(server.url).number('SELECT 1')).toBe(1);
    expect(asked).toBe(3);
  });

  it('fails as one to be repeated if the server stays busy', async () => {
    const server = await coordinator();
    server.statuses.push(...Array<number>(50).fill(503));
    const { code, kind } = await failure(session(server.url, {}, 0).run('SELECT 1'));
    expect([code, kind]).toEqual(['destination_unavailable', 'retryable']);
  });

  it('reads a response again that was cut off', async () => {
    const server = await coordinator(() => ({ columns: ['n'], pages: [[[1]], [[2]]] }));
    server.cutAnswers = 2;
    expect((await session(server.url).rows('SELECT n')).map(({ n }) => n)).toEqual([1, 2]);
    expect(server.statements).toHaveLength(1);
    expect(server.complaints).toEqual([]);
  });

  it('continues at the configured address, whatever host the response names: the login goes nowhere else', async () => {
    const server = await coordinator(() => ({ columns: ['n'], pages: [[[1]], [[2]]] }));
    server.advertised = 'http://inside.invalid:8080';
    expect(await session(server.url, { password: new Secret('x') }).rows('SELECT n')).toHaveLength(2);
    expect(server.complaints).toEqual([]);
  });

  it('is cancelled when it is stopped, and nothing but tidying works afterwards', async () => {
    const server = await coordinator(() => ({ columns: ['n'], pages: [[[1]], [[2]], [[3]]] }));
    const stopped = session(server.url);
    const running = stopped.run('SELECT n');
    stopped.stop();
    expect((await failure(running)).code).toBe('destination_unavailable');
    expect((await failure(stopped.run('SELECT 2'))).code).toBe('destination_unavailable');
    await stopped.cleanUp('DROP TABLE x');
    expect(server.statements.at(-1)?.sql).toBe('DROP TABLE x');
  });

  it('is cancelled when its results are no longer read', async () => {
    const server = await coordinator(() => ({ columns: ['n'], pages: [[[1]], [[2]], [[3]]] }));
    const asking = session(server.url);
    server.cutAnswers = 100;
    await failure(asking.run('SELECT n'));
    expect(server.cancelled).toEqual(['query_1']);
  });
});

describe('a failure of Trino', () => {
  const failed = async (errorName: string, errorType = 'USER_ERROR', message = 'line 1:8: why') => {
    const server = await coordinator(() => ({ error: { message, errorName, errorType } }));
    return failure(session(server.url, {}, 0).run('SELECT 1'));
  };

  it.each([
    ['PERMISSION_DENIED', 'destination_permission', 'auth'],
    ['CATALOG_NOT_FOUND', 'destination_permission', 'auth'],
    ['SCHEMA_NOT_FOUND', 'destination_permission', 'auth'],
    ['NOT_SUPPORTED', 'destination_refused', 'fatal'],
    ['QUERY_TEXT_TOO_LARGE', 'destination_refused', 'fatal'],
    ['TRANSACTION_CONFLICT', 'destination_unavailable', 'retryable'],
    ['SERVER_SHUTTING_DOWN', 'destination_unavailable', 'retryable'],
  ])('%s is %s', async (name, code, kind) => {
    expect(await failed(name)).toMatchObject({ code, kind });
  });

  it('of another system behind Trino is one to be repeated', async () => {
    expect(await failed('ICEBERG_COMMIT_ERROR', 'EXTERNAL')).toMatchObject({ kind: 'retryable' });
  });

  it.each(['INVALID_CAST_ARGUMENT', 'SYNTAX_ERROR', 'JDBC_ERROR'])('shows no value: %s', async (name) => {
    const error = await failed(name, 'EXTERNAL', "Cannot cast 'anna@example.com' to bigint");
    expect(error.message).not.toContain('anna');
    expect(error.causeQuotesValues).toBe(true);
  });

  it.each([
    [401, 'destination_login', 'auth'],
    [403, 'destination_login', 'auth'],
    [302, 'destination_refused', 'fatal'],
    [404, 'destination_refused', 'fatal'],
  ])('with status %i is %s', async (status, code, kind) => {
    const server = await coordinator();
    server.statuses.push(status);
    const error = await failure(session(server.url, { password: new Secret('hidden-word') }).run('SELECT 1'));
    expect(error).toMatchObject({ code, kind, hint: expect.any(String) });
    expect(JSON.stringify(error)).not.toContain('hidden-word');
  });

  it('is reported where nothing listens', async () => {
    const server = await coordinator();
    const { url } = server;
    await server.close();
    open.splice(0);
    expect(await failure(session(url).run('SELECT 1'))).toMatchObject({ code: 'destination_unavailable' });
  });
});

describe('a login of Trino', () => {
  const at = (url: string) => ({ url, username: 'loader', source: 's' });

  it.each(['password', 'token'] as const)(
    'with a %s does not go to another machine without encryption',
    async (kind) => {
      const login = { ...at('http://trino.example.com:8080'), [kind]: new Secret('x') };
      expect(await failure((async () => openTrino(login, false))())).toMatchObject({ code: 'destination_plaintext' });
      await openTrino(login, true).close();
      await openTrino({ ...login, url: 'https://trino.example.com:8443' }, false).close();
      await openTrino({ ...login, url: 'http://127.0.0.1:8080' }, false).close();
    },
  );

  it('without a secret may go anywhere', async () => {
    await openTrino(at('http://trino.example.com:8080'), false).close();
  });
});
