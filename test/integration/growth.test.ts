import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inMemory } from '../../src/conformance/compare.js';
import { Workspace } from '../fixtures/workspace.js';

const rows = 20_000;
let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

/** A text that hardly compresses, a new one each run. */
async function serve(run: number): Promise<void> {
  const records = Array.from({ length: rows }, (_, n) => {
    const text = [1, 2, 3, 4].map((part) => Math.sin(n * part + run).toString(36)).join('');
    return `{"id":"p-${n}","index_id":"made","attributes":{"run":${run},"text":"${text}"}}`;
  });
  await space.control('profiles', { index: 'made', records });
}

async function bytesOf(job: string): Promise<{ all: number; store: number }> {
  const sizes = new Map<string, number>();
  for (const file of await space.files(job)) {
    const path = join(space.jobFolder(job), file);
    sizes.set(file, (await stat(path).catch(() => ({ size: 0 }))).size);
  }
  const all = [...sizes.values()].reduce((sum, size) => sum + size, 0);
  return { all, store: sizes.get('.cdsync/store.duckdb') ?? 0 };
}

it('runs that change every row do not grow the files beyond the kept snapshot and changes', async () => {
  const made = { name: 'made', source: 'index_profiles', index: 'made', page_size: 5000 };
  await space.configure('runs', [made], {
    job: {
      guards: { max_changed: '1000%' },
      publish: { history: '1ms' },
      keep: { snapshots: 1, changes: '1ms' },
    },
  });
  const sizes: { all: number; store: number }[] = [];
  for (let run = 0; run < 7; run += 1) {
    await serve(run);
    expect((await space.runWell('runs')).streams[0]).toMatchObject({
      rows,
      [run === 0 ? 'inserted' : 'updated']: rows,
    });
    sizes.push(await bytesOf('runs'));
  }
  // The first run has no earlier row. A run removes rows that are older than the commit before it, so the fourth is the first that removes
  // as much as it adds: from then on each is the same work on the same amount of data.
  const [, , , fourth, ...later] = sizes;
  for (const { all, store } of later) {
    expect(store).toBeLessThan(1.3 * (fourth?.store ?? 0));
    expect(all).toBeLessThan(1.3 * (fourth?.all ?? 0));
  }
  expect((await space.cdsync(['verify', 'runs.json'])).code).toBe(0);
});

it('tables that have many columns in all are kept in small blocks', async () => {
  const records = (run: number) =>
    Array.from({ length: 100 }, (_, n) => {
      const values = Array.from({ length: 30 }, (_, column) => `"c${column}":"${n < 5 ? run : 0} ${n}"`);
      return `{"id":"p-${n}","index_id":"wide","attributes":{${values.join(',')}}}`;
    });
  const streams = Array.from({ length: 20 }, (_, n) => ({ name: `s${n}`, source: 'index_profiles', index: 'wide' }));
  for (const [run, updated] of [0, 5].entries()) {
    await space.control('profiles', { index: 'wide', records: records(run) });
    await space.configure('many', streams);
    const report = await space.runWell('many');
    expect(report.streams.map((stream) => [stream.rows, stream.updated])).toEqual(streams.map(() => [100, updated]));
  }
  const blockBytes = await inMemory(async (connection) => {
    await connection.run(`ATTACH '${join(space.jobFolder('many'), '.cdsync', 'store.duckdb')}' AS store (READ_ONLY)`);
    const reader = await connection.runAndReadAll('SELECT block_size FROM pragma_database_size()');
    return Number(reader.getRows()[0]?.[0]);
  });
  expect(blockBytes).toBe(16_384);
  expect((await space.cdsync(['verify', 'many.json'])).code).toBe(0);
});
