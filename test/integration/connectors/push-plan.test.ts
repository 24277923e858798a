import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { folderContents } from '../../fixtures/folder-contents.js';
import { Workspace } from '../../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

const warehouse = { name: 'warehouse', connector: 'duckdb', path: './warehouse.duckdb' };
const stream = { name: 'made', source: 'index_profiles', index: 'made' };

async function serve(records: Record<string, object>): Promise<void> {
  const texts = Object.entries(records).map(([id, attributes]) => JSON.stringify({ id, index_id: 'made', attributes }));
  await space.control('profiles', { index: 'made', records: texts });
}

async function configure(columns: object = {}): Promise<void> {
  await space.configure('plans', [stream] as never, { job: { destinations: [{ ...warehouse, columns }] } as never });
}

async function sql(statement: string): Promise<unknown[]> {
  const instance = await DuckDBInstance.create(join(space.folder, 'warehouse.duckdb'));
  const connection = await instance.connect();
  try {
    return (await connection.runAndReadAll(statement)).getRowObjectsJson();
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

async function plan(...words: string[]) {
  const { code, stdout } = await space.cdsync(['push', 'plans.json', '--dry-run', '--json', ...words]);
  const document = JSON.parse(stdout) as {
    jobs: { destinations: { action: string; plan: object; error: object | null }[] }[];
  };
  return { code, ...(document.jobs[0]?.destinations[0] as { action: string; plan: object; error: object | null }) };
}

describe('push --dry-run', () => {
  it('says what would be done, and writes nothing anywhere', async () => {
    await serve({ a: { email: 'a@x.org', score: 1 }, b: { email: 'b@x.org', score: 2 } });
    await configure();
    expect((await space.cdsync(['run', 'plans.json', '--no-push'])).code).toBe(0);
    const contents = async () => (await folderContents(space.folder)).filter((line) => !line.startsWith('. '));
    const before = await contents();
    expect(await plan()).toMatchObject({ code: 0, action: 'create', plan: { there: null, rows: { insert: 2 } } });
    expect(await contents()).toEqual(before);
    expect((await space.cdsync(['push', 'plans.json'])).code).toBe(0);
    expect(await plan()).toMatchObject({ code: 0, action: 'nothing', error: null });
    const { stdout } = await space.cdsync(['push', 'plans.json', '--dry-run']);
    expect(stdout).toContain('made -> warehouse (duckdb, made): nothing to do');
  });

  it('names the rule or type that needs all rows, and the columns that are added and cleared', async () => {
    await configure({ email: { drop: true } });
    expect(await plan()).toMatchObject({ action: 'reload', plan: { clear: ['email'] } });
    await configure();
    await serve({ a: { email: 'a@x.org', score: 'one' }, b: { email: 'b@x.org', score: 2 } });
    expect((await space.cdsync(['run', 'plans.json', '--no-push'])).code).toBe(0);
    const { stdout } = await space.cdsync(['push', 'plans.json', '--dry-run']);
    expect(stdout).toContain('type of "score"');
    expect(stdout).toContain('score__text VARCHAR');
    expect((await space.cdsync(['push', 'plans.json'])).code).toBe(0);
    expect(await sql('SELECT id, score__text FROM made ORDER BY id')).toEqual([
      { id: 'a', score__text: 'one' },
      { id: 'b', score__text: '2' },
    ]);
  });

  it('ends with 5 if something would be refused, and the refusal has a way out', async () => {
    await sql('ALTER TABLE made ALTER COLUMN email SET DATA TYPE BLOB USING email::BLOB');
    expect(await plan()).toMatchObject({ code: 5, action: 'refused', error: { code: 'table_altered' } });
    const pushed = await space.cdsync(['push', 'plans.json', '--json']);
    expect(JSON.parse(pushed.stdout).jobs[0].destinations[0]).toMatchObject({ status: 'failed', action: 'refused' });
    expect((await space.cdsync(['push', 'plans.json', '--recreate'])).code).toBe(0);
    expect(await sql('SELECT id, email FROM made ORDER BY id')).toEqual([
      { id: 'a', email: 'a@x.org' },
      { id: 'b', email: 'b@x.org' },
    ]);
  });
});

describe('push --verify', () => {
  it('finds values that another process edited or exchanged, loads all rows again, and says so', async () => {
    await sql("UPDATE made SET email = CASE id WHEN 'a' THEN 'b@x.org' ELSE 'a@x.org' END");
    expect((await space.cdsync(['push', 'plans.json'])).code).toBe(0);
    const { code, stdout } = await space.cdsync(['push', 'plans.json', '--verify', '--json']);
    expect([code, JSON.parse(stdout).jobs[0].destinations[0].error.code]).toEqual([5, 'table_changed']);
    expect(await sql('SELECT email FROM made ORDER BY id')).toEqual([{ email: 'a@x.org' }, { email: 'b@x.org' }]);
    expect((await space.cdsync(['push', 'plans.json', '--verify'])).code).toBe(0);
  });

  it('is not needed for rows that another process deleted', async () => {
    await sql("DELETE FROM made WHERE id = 'a'");
    const { code, stdout } = await space.cdsync(['push', 'plans.json', '--json']);
    expect([code, JSON.parse(stdout).jobs[0].destinations[0]]).toMatchObject([0, { status: 'ok', action: 'reload' }]);
    expect(await sql('SELECT count(*)::INT AS n FROM made')).toEqual([{ n: 2 }]);
    expect(await sql('SELECT action FROM _cdsync_loads ORDER BY committed_at')).toHaveLength(5);
  });
});

describe('push --dry-run to an API', () => {
  const env = { CRM_TEAM: 'team-blue', CRM_KEY: 'key-123456', CRM_SECRET: 'secret-99999999999999999999999999' };
  const crm = {
    ...{ name: 'crm', connector: 'http', method: 'put', mode: 'mirror' },
    url: 'http://127.0.0.1:9/${CRM_TEAM}/contacts/{{ id }}',
    headers: { 'X-Team': '${CRM_KEY}', 'X-Row': '{{ id }} ${CRM_KEY}' },
    auth: { query: { name: 'api_key', value: '${CRM_SECRET}' } },
    body: { email: '{{ email }}', key: 'a${CRM_KEY}b' },
    rate: [{ requests: 1, per: '1m' }],
  };
  const shown = async (destination: object, ...words: string[]) => {
    await space.configure('plans', [stream] as never, { job: { destinations: [destination] } as never });
    return space.cdsync(['push', 'plans.json', '--dry-run', ...words], env);
  };

  it('counts requests and their time, and has no value', async () => {
    const { code, stdout } = await shown(crm);
    expect(code).toBe(0);
    expect(stdout).toContain('  requests  at least 2 PUT for inserts; `rate` makes that 1 min 0 s or more\n');
    expect(stdout).not.toMatch(/x\.org|contacts/);
  });

  it('shows the first requests as they would go out, without a secret', async () => {
    const { stdout, stderr } = await shown(crm, '--show-values', '--json');
    const { requests } = JSON.parse(stdout).jobs[0].destinations[0].plan;
    const request = (id: string) => ({
      method: 'PUT',
      url: `http://127.0.0.1:9/***/contacts/${id}?api_key=***`,
      headers: {
        ...{ 'user-agent': 'cdsync', 'content-type': 'application/json', accept: 'application/json' },
        ...{ 'x-team': '***', 'x-row': `${id} ***` },
      },
      body: `{"email":"${id}@x.org","key":"a***b"}`,
    });
    expect(requests.kinds).toEqual([{ op: 'insert', method: 'PUT', requests: 2 }]);
    expect(requests.first.sort((a: { url: string }, b: { url: string }) => (a.url < b.url ? -1 : 1))).toEqual([
      request('a'),
      request('b'),
    ]);
    for (const secret of Object.values(env)) expect(stdout + stderr).not.toContain(secret);
  });

  it('shows signed batches without their signature, and writes nothing', async () => {
    const contents = async () => (await folderContents(space.folder)).filter((line) => !/^\. |plans\.json/.test(line));
    const before = await contents();
    const hook = {
      name: 'hook',
      connector: 'http',
      url: 'http://127.0.0.1:9/hook/${CRM_KEY}',
      signing_secret: '${CRM_SECRET}',
    };
    const { stdout } = await shown(hook, '--show-values');
    expect(stdout).toContain('  request   POST ***\n');
    expect(stdout).toContain('webhook-signature: ***\n');
    expect(stdout).toContain('"email":"a@x.org"');
    expect(await contents()).toEqual(before);
  });
});
