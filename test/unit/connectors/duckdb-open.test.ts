import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openDuckdb } from '../../../connectors/duckdb/load.js';

test('a file that is no DuckDB database is named as such', async () => {
  const path = join(mkdtempSync(join(tmpdir(), 'cdsync-no-duckdb-')), 'notes.txt');
  writeFileSync(path, 'some notes\n');
  const options = { path, schema: 'main', memoryMb: 64 };
  await expect(openDuckdb({ options } as Parameters<typeof openDuckdb>[0])).rejects.toMatchObject({
    code: 'destination_refused',
    message: expect.stringMatching(/notes\.txt cannot be opened: .*not a valid DuckDB database file/),
    hint: expect.stringContaining('`path`'),
  });
});
