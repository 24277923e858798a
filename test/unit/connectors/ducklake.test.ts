import { describe, expect, it } from 'vitest';
import {
  attachStatement,
  catalogPlace,
  connectionString,
  type DucklakeOptions,
  loginStatements,
  neededExtensions,
} from '../../../connectors/ducklake/catalog.js';
import { lakeError } from '../../../connectors/ducklake/errors.js';
import { checkDucklake } from '../../../connectors/ducklake/options.js';
import { duckdbTypes, parseColumnType, Secret } from '../../../src/sdk/index.js';

const { mapColumn, widens } = duckdbTypes('DECIMAL(38,0)');

type Input = Partial<Omit<DucklakeOptions, 'catalog'>>;

function options(catalog: Partial<DucklakeOptions['catalog']>, more: Input = {}): DucklakeOptions {
  return { catalog, schema: 'cdp', memoryMb: 512, ...more } as DucklakeOptions;
}

const inPostgres = (url: string, more: Input = {}) => options({ postgres: new Secret(url) }, more);
const noRoots = () => Promise.reject(new Error('no authorities are needed'));
const messages = (value: unknown) => checkDucklake(value).map(({ path, message }) => `${path.join('.')}: ${message}`);

describe('options of connector ducklake', () => {
  it('take a folder or a bucket, not both, and options of a store only with a bucket', () => {
    const catalog = { duckdb: './lake.ducklake' };
    expect(messages({ catalog, data_path: './lake' })).toEqual([]);
    expect(messages({ catalog, data_path: './lake', data_url: 's3://lake' })).toEqual([
      'data_url: give `data_path` or `data_url`, not both: it says where the files go',
    ]);
    expect(messages({ catalog, data_path: './lake', region: 'x' })).toEqual([
      'region: needs `data_url`, which is not given',
    ]);
    expect(messages({ catalog, data_url: 's3://lake', access_key_id: 'x' })).toEqual([
      ': give both `access_key_id` and `secret_access_key`, or neither',
    ]);
  });

  it('take a password, TLS and a schema of the catalog only with PostgreSQL', () => {
    const more = { password: 'x', tls: 'off', catalog_schema: 'lake' };
    expect(messages({ catalog: { postgres: 'postgres://h/d' }, ...more })).toEqual([]);
    expect(messages({ catalog: { sqlite: './l.sqlite' }, ...more })).toHaveLength(3);
  });
});

describe('the catalog of a lake', () => {
  it('needs the extensions of its parts', () => {
    expect(neededExtensions(options({ duckdb: '/l' }))).toEqual(['ducklake']);
    expect(neededExtensions(options({ sqlite: '/l' }))).toEqual(['ducklake', 'sqlite_scanner']);
    expect(neededExtensions(inPostgres('postgres://h/d', { dataUrl: 's3://b', accessKeyId: 'x' }))).toEqual([
      'ducklake',
      'postgres_scanner',
      'httpfs',
    ]);
    expect(neededExtensions(options({ duckdb: '/l' }, { dataUrl: 's3://b' }))).toEqual(['ducklake', 'httpfs', 'aws']);
  });

  it('is reported and attached without user and password', async () => {
    const input = inPostgres('postgres://loader:top%20secret@lake.example.com/crm?sslmode=require', {
      catalogSchema: 'l',
    });
    expect(catalogPlace(input)).toBe('PostgreSQL lake.example.com:5432/crm schema l');
    const connection = await connectionString(input, 'warehouse', async () => '/roots.pem');
    const statement = attachStatement(input, 'use', connection);
    expect(statement).toContain('CREATE_IF_NOT_EXISTS false');
    expect(statement).toContain("METADATA_SCHEMA 'l'");
    expect(`${connection} ${statement}`).not.toMatch(/top|secret(?!')/);
    expect(loginStatements(input)).toEqual([expect.stringContaining("PASSWORD 'top secret'")]);
    const bare = inPostgres('postgres://loader:100%@lake.example.com/crm');
    expect(loginStatements(bare)).toEqual([expect.stringContaining("PASSWORD '100%'")]);
  });

  it('is reached with TLS, and a verified certificate, unless it is on this machine', async () => {
    const far = inPostgres('postgres://u:p@lake.example.com/crm');
    const verified = await connectionString(far, 'w', async () => '/roots.pem');
    expect(verified).toContain("sslmode='verify-full' sslrootcert='/roots.pem'");
    const own = inPostgres('postgres://u:p@lake.example.com/crm?sslrootcert=/own.pem');
    expect(await connectionString(own, 'w', noRoots)).toContain("sslmode='verify-full' sslrootcert='/own.pem'");
    const near = inPostgres('postgres://u:p@127.0.0.1/crm');
    expect(await connectionString(near, 'w', noRoots)).toContain("sslmode='disable'");
    const loose = inPostgres('postgres://u:p@lake.example.com/crm', { tls: 'required' });
    expect(await connectionString(loose, 'w', noRoots)).toContain("sslmode='require'");
    const plain = inPostgres('postgres://u:p@lake.example.com/crm?sslmode=disable');
    await expect(connectionString(plain, 'w', noRoots)).rejects.toMatchObject({ code: 'destination_plaintext' });
    expect(await connectionString(options({ sqlite: '/l' }), 'w', noRoots)).toBeUndefined();
  });

  it('keeps quotes and backslashes of names apart from the settings', async () => {
    const odd = inPostgres("postgres://a'b%5Cc:p@127.0.0.1/d%20e");
    expect(await connectionString(odd, "it's", noRoots)).toContain(
      "dbname='d e' user='a\\'b\\\\c' sslmode='disable' application_name='cdsync it\\'s'",
    );
  });

  it('makes a lake only where its data has a place, and looks without writing', () => {
    const file = options({ sqlite: "/it's.sqlite" }, { dataPath: '/data' });
    expect(attachStatement(file, 'create', undefined)).toContain(
      "ATTACH IF NOT EXISTS 'ducklake:sqlite:/it''s.sqlite' AS lake (DATA_INLINING_ROW_LIMIT 0, DATA_PATH '/data/'",
    );
    expect(attachStatement(file, 'look', undefined)).toContain('CREATE_IF_NOT_EXISTS false, READ_ONLY');
    expect(attachStatement(file, 'look', undefined)).not.toContain('WAL');
  });
});

describe('types of a lake', () => {
  it('keep all digits of an integer of 128 bits', () => {
    expect(mapColumn({ kind: 'int128' })).toEqual({ type: 'DECIMAL(38,0)', as: 'DECIMAL(38,0)' });
    expect(mapColumn({ kind: 'list', element: { kind: 'json' } })).toEqual({ type: 'JSON[]' });
  });

  it('widen integers and structs, and nothing else', () => {
    expect(widens(parseColumnType('BIGINT'), parseColumnType('DECIMAL(38,0)'))).toBe(true);
    expect(widens(parseColumnType('BIGINT[]'), parseColumnType('DOUBLE[]'))).toBe(true);
    expect(widens(parseColumnType('STRUCT(a BIGINT)'), parseColumnType('STRUCT(a DOUBLE, b VARCHAR)'))).toBe(true);
    expect(widens(parseColumnType('DECIMAL(38,0)'), parseColumnType('DOUBLE'))).toBe(false);
    expect(widens(parseColumnType('BIGINT'), parseColumnType('VARCHAR'))).toBe(false);
  });
});

describe('errors of a lake', () => {
  const notices = {
    catalog: 'PostgreSQL h:5432/crm',
    redact: (text: string) => text.replaceAll('hidden-pw', '[secret]'),
  };
  const dsn =
    'Unable to connect to Postgres at "dbname=crm host=h password=hidden-pw": connection to server at "h", port 5432 failed: ';
  const checked = (message: string) => lakeError(new Error(message), notices);

  it.each([
    [`IO Error: ${dsn}FATAL:  password authentication failed for user "u"`, 'destination_login'],
    [`IO Error: ${dsn}FATAL:  database "crm" does not exist`, 'destination_login'],
    [`IO Error: ${dsn}server does not support SSL, but SSL was required`, 'destination_login'],
    [`IO Error: ${dsn}Connection refused\n\tIs the server running`, 'destination_unavailable'],
    ['IO Error: Could not set lock on file "/l": Conflicting lock is held', 'destination_unavailable'],
    ['Failed to flush changes into DuckLake: database is locked', 'destination_unavailable'],
    [
      'TransactionContext Error: Failed to commit: Transaction conflict - attempting to insert',
      'destination_unavailable',
    ],
    ['TransactionContext Error: Failed to commit: Failed to execute query "ROLLBACK": ', 'destination_unavailable'],
    ['ERROR:  permission denied for schema lake', 'destination_permission'],
    ['IO Error: Cannot open file "/x": Permission denied', 'destination_permission'],
    ['HTTP Error: Unable to connect to URL "http://h/lake/x": 403 (Forbidden). HTTP 403', 'destination_permission'],
    ['Constraint Error: value maria@example.com', 'destination_refused'],
  ])('%s', (message, code) => {
    const error = checked(message);
    expect(error.code).toBe(code);
    expect(`${error.message} ${error.hint} ${error.cause}`).not.toContain('hidden-pw');
    expect(error.message).not.toContain('maria');
  });

  it('name both versions if the catalog is of another one', () => {
    const error = checked(
      'DuckLake catalog version mismatch: catalog version is 0.3, but the extension requires version 1.0. To automatically migrate',
    );
    expect(error.message).toContain('has version 0.3; this DuckDB needs version 1.0');
  });
});
