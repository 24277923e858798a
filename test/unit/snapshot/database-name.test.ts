import { spawnSync } from 'node:child_process';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeEach(async () => {
  snapshots = await Snapshots.open();
  await snapshots.run('members', [{ id: 'p1' }]);
  await snapshots.publish();
});
afterEach(() => snapshots.close());

async function rowsOf(file: string, ...sql: readonly string[]): Promise<unknown> {
  const instance = await DuckDBInstance.create(file, file === ':memory:' ? {} : { access_mode: 'READ_ONLY' });
  const connection = await instance.connect();
  try {
    for (const each of sql.slice(0, -1)) await connection.run(each);
    return (await connection.runAndReadAll(sql.at(-1) as string)).getRowsJson();
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

test('the published database is called as its job, whichever name of the file is opened', async () => {
  const { link, published } = { link: snapshots.layout.link, published: snapshots.layout.published(1) };
  for (const file of [link, published]) {
    expect(await rowsOf(file, 'SELECT current_database(), id FROM job.main.members')).toEqual([['job', 'p1']]);
    const attached = await rowsOf(':memory:', `ATTACH '${file}' (READ_ONLY)`, 'SELECT id FROM job.main.members');
    expect(attached).toEqual([['p1']]);
  }
});

test("it is called so by Python's client, too", ({ skip }) => {
  if (spawnSync('python3', ['-c', 'import duckdb']).status !== 0) {
    console.warn('NOT TRIED: Python has no duckdb here');
    skip();
  }
  const program = `import duckdb, sys
print(duckdb.connect(sys.argv[1], read_only=True).sql('select current_database(), id from job.main.members').fetchall())`;
  const { stdout, stderr } = spawnSync('python3', ['-c', program, snapshots.layout.link], { encoding: 'utf8' });
  expect([stdout.trim(), stderr]).toEqual(["[('job', 'p1')]", '']);
});
