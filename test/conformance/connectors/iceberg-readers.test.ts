import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import iceberg from '../../../connectors/iceberg/index.js';
import type { ComparedRow } from '../../../src/conformance/index.js';
import { after, before, delivered } from '../../../src/conformance/rows.js';
import { TestTarget } from '../../../src/conformance/test-target.js';
import { makePython } from '../../bench/peers/python.js';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { IcebergCatalog } from '../../fixtures/iceberg-catalog.js';
import { icebergRows } from '../../fixtures/iceberg-rows.js';
import { ObjectStore } from '../../fixtures/object-store.js';

const run = promisify(execFile);
const script = join(import.meta.dirname, '..', '..', 'fixtures', 'iceberg-readers.py');
const isAsked = process.env.CDSYNC_TEST_READERS !== undefined;

/** As the script digests rows. */
function digest(rows: readonly ComparedRow[]): string {
  const lines = rows.map((row) => ['id', 'name', 'visits'].map((name) => row.get(name) ?? '-').join('|')).sort();
  return createHash('sha256').update(lines.join('\n')).digest('hex');
}

async function python(): Promise<string> {
  const folder = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'cdsync-test', 'iceberg-readers');
  const made = await makePython(folder, ['pyiceberg[pyarrow]==0.12.0', 'chdb']);
  if ('missing' in made) throw new Error(made.missing);
  return join(made.bin, 'python3');
}

/** Set CDSYNC_TEST_READERS=1 to run this: it installs 200 MB from PyPI. */
describe.runIf(isAsked)('readers of an Iceberg table, through its catalog', () => {
  it('pyiceberg, chdb and DuckDB find the rows of the job, pyiceberg those of each snapshot too', async ({ skip }) => {
    const extensions = await duckdbExtensions(['avro', 'httpfs', 'iceberg']);
    const store = await ObjectStore.open();
    const catalog = await IcebergCatalog.start({ endpoint: store.bareUrl, bucket: 'lake' });
    try {
      if (extensions === undefined || catalog === undefined) return skip('there is no catalog, or no extensions');
      await store.createBucket('lake');
      await catalog.createNamespace('cdp');
      const login = { access_key_id: 'AKIDEXAMPLE', secret_access_key: 'a-secret-of-the-test', endpoint: store.url };
      const options = { catalog: catalog.url, namespace: 'cdp', extensions, ...login };
      const reading = { catalog: catalog.url, namespace: 'cdp', extensions, endpoint: store.bareUrl };
      const place = { options, rows: (table: string) => icebergRows(reading, table), close: async () => undefined };
      const destination = { verify: 'rows', partition_by: ['bucket(id, 4)'] };
      const subject = await TestTarget.open({ connector: iceberg, place, destination });
      delivered(await subject.run(before));
      delivered(await subject.run(after));
      const wanted = digest(await subject.published());
      expect(digest(await place.rows('people'))).toBe(wanted);
      const { stdout } = await run(await python(), [script, catalog.url, 'cdp', 'people', store.bareUrl]);
      const results = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      expect(results).toEqual([
        { reader: 'pyiceberg', rows: 95, digest: wanted, older: { '1': 95, '2': 95 } },
        { reader: 'chdb', rows: 95, digest: wanted, older: null },
      ]);
      await subject.close();
    } finally {
      await catalog?.stop();
      await store.close();
    }
  }, 900_000);
});
