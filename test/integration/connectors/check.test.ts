import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PostgresServer } from '../../fixtures/postgres-server.js';
import { Receiver } from '../../fixtures/webhook-server.js';
import { Workspace } from '../../fixtures/workspace.js';

let space: Workspace;
let server: PostgresServer;
beforeAll(async () => {
  [space, server] = await Promise.all([Workspace.open({ profiles: 20 }), PostgresServer.start()]);
});
afterAll(async () => {
  await server.stop();
  await space.close();
});

const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };

async function check(job: string, destinations: Record<string, unknown>[]) {
  await space.configure(job, [members], { job: { destinations } });
  const { code, stdout, stderr } = await space.cdsync(['check', `${job}.json`, '--json', '--quiet'], {
    PASSWORD: 'right',
  });
  const { destinations: checked } = JSON.parse(stdout) as {
    destinations: {
      name: string;
      status: string;
      reached: string | null;
      lacks: { message: string; hint: string | null }[];
      error: { code: string } | null;
    }[];
  };
  return { code, stderr, checked };
}

function urlFor(user: string): string {
  const url = new URL(server.url());
  url.username = user;
  url.password = 'right';
  return url.href;
}

describe('check', () => {
  it('names privileges that a PostgreSQL user lacks, and statements that grant them; writes nothing', async () => {
    const postgres = { name: 'warehouse', connector: 'postgres', url: urlFor('loader'), schema: 'cdp' };
    await server.query("CREATE ROLE loader LOGIN PASSWORD 'right'");
    const schemas = () => server.query('SELECT nspname FROM pg_namespace ORDER BY 1');
    const before = await schemas();
    const first = await check('pg', [postgres]);
    expect(first.checked).toMatchObject([
      {
        status: 'failed',
        reached: expect.stringMatching(/^PostgreSQL \d+.*, schema cdp, which the first load creates$/),
        lacks: [{ message: 'there is no schema cdp, and loader may not create it' }],
        error: null,
      },
    ]);
    expect(first.code).toBe(4);
    expect(first.stderr).toMatch(/correct the destination, then: cdsync check pg\.json /);
    expect(await schemas()).toEqual(before);
    await server.query('CREATE SCHEMA cdp; CREATE TABLE cdp.members (id text); CREATE TABLE cdp._cdsync_state (x int)');
    const { checked } = await check('pg', [postgres]);
    expect(checked[0]?.lacks.map(({ message }) => message)).toEqual(['loader may not use schema cdp']);
    const statement = /it: (.*)$/.exec(checked[0]?.lacks[0]?.hint ?? '')?.[1] ?? '';
    await server.query(statement);
    const tables = await check('pg', [postgres]);
    expect(tables.checked[0]?.lacks.map(({ message }) => message)).toContain(
      'loader lacks SELECT, INSERT, UPDATE, DELETE on "cdp"."members"',
    );
    for (const { hint } of tables.checked[0]?.lacks ?? []) await server.query(/it: (.*)$/.exec(hint ?? '')?.[1] ?? '');
    expect(await check('pg', [postgres])).toMatchObject({ code: 0, checked: [{ status: 'ok', lacks: [] }] });
  });

  it('calls each function that a load rests on, and names the grant for one that may not be called', async () => {
    const postgres = { name: 'warehouse', connector: 'postgres', url: urlFor('caller'), schema: 'called' };
    await server.query("CREATE ROLE caller LOGIN PASSWORD 'right'; CREATE SCHEMA called AUTHORIZATION caller");
    const { checked } = await check('calls', [postgres]);
    expect(checked).toMatchObject([{ status: 'ok', lacks: [], error: null }]);
    for (const name of ['md5(text)', 'float8send(float8)', 'isfinite(timestamptz)', 'isfinite(date)']) {
      await server.query(`REVOKE EXECUTE ON FUNCTION ${name} FROM PUBLIC`);
      const { code, checked: refused } = await check('calls', [postgres]);
      await server.query(`GRANT EXECUTE ON FUNCTION ${name} TO PUBLIC`);
      expect([name, code, refused[0]?.error]).toEqual([
        name,
        4,
        expect.objectContaining({
          code: 'destination_permission',
          hint: expect.stringContaining('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pg_catalog TO "caller"'),
        }),
      ]);
    }
    expect(await server.query("SELECT relname FROM pg_class WHERE relnamespace = 'called'::regnamespace")).toEqual([]);
  });

  it('distinguishes a wrong password from a server that is not there, and continues to the next destination', async () => {
    await server.query("CREATE ROLE other LOGIN PASSWORD 'another'");
    const folder = join(space.folder, 'closed');
    await writeFile(folder, 'a file');
    const { code, checked } = await check('mixed', [
      { name: 'wrong', connector: 'postgres', url: urlFor('other'), schema: 'one' },
      { name: 'absent', connector: 'postgres', url: 'postgres://u:${PASSWORD}@127.0.0.1:1/db', schema: 'two' },
      { name: 'no_folder', connector: 'files', path: './closed' },
      { name: 'fine', connector: 'files', path: './fine' },
      { name: 'file', connector: 'duckdb', path: './not/yet.duckdb' },
      { name: 'hook', connector: 'http', url: `${space.service.url}/nothing` },
    ]);
    expect(checked.map(({ name, status, error }) => [name, status, error?.code])).toEqual([
      ['wrong', 'failed', 'destination_login'],
      ['absent', 'failed', 'destination_unavailable'],
      ['no_folder', 'failed', 'destination_refused'],
      ['fine', 'ok', undefined],
      ['file', 'ok', undefined],
      ['hook', 'ok', undefined],
    ]);
    expect(code).toBe(1);
    expect((await readdir(space.folder)).filter((name) => ['fine', 'not'].includes(name))).toEqual([]);
    await mkdir(join(space.folder, 'fine'));
    const text = await space.cdsync(['check', 'mixed.json'], { PASSWORD: 'right' });
    expect(text.stdout).toContain(`  ok      destination fine: ${join(space.folder, 'fine')}\n`);
    expect(text.stdout).toMatch(/ {2}failed {2}destination wrong: PostgreSQL refuses the login/);
    expect(text.stderr).not.toContain('next: cdsync run');
  });
});

it('a check of a webhook sends an OPTIONS request, with no records and no signature', async () => {
  const receiver = await Receiver.open();
  const url = `http://127.0.0.1:${receiver.port}/in`;
  const { checked } = await check('knocked', [
    { name: 'hook', connector: 'http', url, signing_secret: 'x'.repeat(32) },
  ]);
  expect(checked).toMatchObject([{ status: 'ok', reached: expect.stringContaining('OPTIONS') }]);
  const asked = receiver.received.map(({ method, body, headers }) => [
    method,
    body,
    Object.keys(headers).some((name) => /signature/.test(name)),
  ]);
  expect(asked).toEqual([['OPTIONS', '', false]]);
  await receiver.close();
});
