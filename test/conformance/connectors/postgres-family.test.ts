import { afterAll, expect, it } from 'vitest';
import { tableConformance } from '../../../src/conformance/index.js';
import { TestTarget } from '../../../src/conformance/test-target.js';
import { postgresConnector } from '../../../src/sdk/index.js';
import { postgresPlace } from '../../fixtures/postgres-place.js';
import { PostgresServer } from '../../fixtures/postgres-server.js';

const server = await PostgresServer.start();
afterAll(() => server.stop());

/** A database that is related to PostgreSQL: another name, another port, JSON as text, and no index behind a key. */
const relative = postgresConnector({
  name: 'relative',
  product: 'Relative',
  port: server.port,
  erasure: 'nowhere else',
  capabilities: { maxColumns: 1200 },
  types: { json: { type: 'text', as: 'JSON', limits: { nul: 'refused' } } },
  dialect: { afterFill: () => [] },
});

/** A place whose URL has no port. */
function place() {
  const { options, ...rest } = postgresPlace(server);
  return { ...rest, options: { ...options, url: server.url().replace(`:${server.port}`, '') } };
}

tableConformance({ connector: relative, server: { host: '127.0.0.1', port: server.port }, place: async () => place() });

it('a relative of PostgreSQL differs in the members that it declares, and has its own name in messages', async () => {
  expect(relative).toMatchObject({ name: 'relative', capabilities: { maxColumns: 1200, keyBytes: 2600 } });
  const target = place();
  const { schema } = target.options as Record<string, unknown>;
  const subject = await TestTarget.open({ connector: relative, place: target });
  try {
    expect((await subject.run("SELECT 1 AS id, ['a'] AS list")).destinations[0]).toMatchObject({ status: 'ok' });
    const columns = await server.query(
      `SELECT column_name || ' ' || data_type AS c FROM information_schema.columns
       WHERE table_schema = '${schema}' AND table_name = 'people' AND column_name NOT LIKE '\\_%' ORDER BY 1`,
    );
    expect(columns).toEqual([{ c: 'id bigint' }, { c: 'list text' }]);
    const keys = await server.query(
      `SELECT conname FROM pg_constraint WHERE contype = 'p' AND conrelid = '${schema}.people'::regclass`,
    );
    expect(keys).toEqual([]);
    await server.query(`DROP SCHEMA ${schema} CASCADE`);
    subject.destination = { url: server.url().replace('crm', 'absent').replace(`:${server.port}`, '') };
    const [{ error } = { error: null }] = (await subject.run('SELECT 2 AS id')).destinations;
    expect(error?.message).toMatch(/^Relative refuses the login/);
  } finally {
    await subject.close();
  }
});
