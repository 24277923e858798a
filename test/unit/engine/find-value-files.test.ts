import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { filesWith } from '../../../src/engine/admin/find-value-files.js';
import { Database } from '../../../src/storage/duckdb.js';
import { JobLayout } from '../../../src/storage/layout.js';

test('files of one form are searched in one statement, and each that has a text is named', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-search-'));
  const database = await Database.open({ memoryMb: 256, threads: 1 });
  const session = await database.connect();
  try {
    const layout = new JobLayout(folder, 'nightly');
    await mkdir(layout.folder, { recursive: true });
    const write = (name: string, rows: string) =>
      session.run(`COPY (${rows}) TO '${join(layout.folder, name)}' (FORMAT parquet)`);
    for (let n = 0; n < 8; n += 1)
      await write(
        `p[${n}].parquet`,
        `SELECT 'person-' || i AS id, repeat('x', 9) AS t FROM range(${n * 100}, ${n * 100 + 100}) AS r(i)`,
      );
    await write('list.parquet', `SELECT ['person-250'] AS ids, '"person-777"'::JSON AS j`);
    await write('number.parquet', 'SELECT 1234567 AS n');
    await writeFile(join(layout.folder, 'text.json'), '{"a":"person-250"}');
    const statements = vi.spyOn(session, 'rows');
    expect(await filesWith(session, layout, ['person-250', 'person-777', '1234567', "o'person"])).toEqual([
      'list.parquet',
      'number.parquet',
      'p[2].parquet',
      'p[7].parquet',
      'text.json',
    ]);
    const searches = statements.mock.calls.filter(([sql]) => !sql.startsWith('DESCRIBE'));
    expect(searches.length).toBeLessThanOrEqual(3);
  } finally {
    session.close();
    database.close();
    await rm(folder, { recursive: true });
  }
});
