import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { asyncBufferFromFile, parquetMetadataAsync, parquetRead, parquetSchema } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Model, type ModelRecord, sameText, sameValue, streams, write } from '../fixtures/json-model.js';
import { streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

const decoder = new TextDecoder();

/** The snapshot's rows as a reader that is not DuckDB gives them; JSON columns as text. */
async function readParquet(job: string): Promise<Map<string, Map<string, unknown>>> {
  const { files } = await space.manifest(job, 'made');
  const rows = new Map<string, Map<string, unknown>>();
  for (const { path } of files) {
    const file = await asyncBufferFromFile(join(space.jobFolder(job), 'parquet', 'made', path));
    const metadata = await parquetMetadataAsync(file);
    const names = parquetSchema(metadata).children.map(({ element }) => element.name);
    const parsers = {
      jsonFromBytes: (bytes?: Uint8Array) => (bytes === undefined || bytes === null ? bytes : decoder.decode(bytes)),
    };
    // Rows are arrays: an object could not have a member called __proto__.
    const onComplete = (found: unknown[][]) => {
      for (const row of found) rows.set(String(row[0]), new Map(names.map((name, column) => [name, row[column]])));
    };
    // biome-ignore lint/suspicious/noExplicitAny: the library's types ask for all parsers; it adds the missing ones.
    await parquetRead({ file, metadata, compressors, parsers: parsers as any, rowFormat: 'array', onComplete });
  }
  return rows;
}

async function columnNames(job: string): Promise<Map<string, { name: string; type: string }>> {
  const columns = await space.query(
    job,
    "select path, column_name, type from cdsync.columns where starts_with(path, 'attributes.')",
  );
  return new Map(
    columns.map(({ path, column_name, type }) => [
      String(path).slice(11),
      { name: String(column_name), type: String(type) },
    ]),
  );
}

/** DuckDB reads values that the second reader cannot read: exact decimals, and a field called __proto__. */
async function readAsText(job: string, name: string): Promise<Map<string, unknown>> {
  const quoted = `"${name.replaceAll('"', '""')}"`;
  const rows = await space.query(job, `select id, to_json(${quoted})::varchar as value from made`);
  return new Map(rows.map(({ id, value }) => [String(id), value]));
}

function serialize(records: readonly ModelRecord[]): string[] {
  return records.map((attributes, number) => {
    const members = [...attributes].map(([name, value]) => `${JSON.stringify(name)}:${write(value)}`);
    return `{"id":"r${number}","index_id":"made","attributes":{${members.join(',')}}}`;
  });
}

/** Expects the snapshot to have the served records; `earlier` are records of an earlier run, whose columns stay. */
async function checkSnapshot(
  job: string,
  records: readonly ModelRecord[],
  earlier: readonly ModelRecord[] = [],
): Promise<void> {
  const rows = await readParquet(job);
  const columns = await columnNames(job);
  expect(rows.size).toBe(records.length);
  for (const [attribute, { name, type }] of columns) {
    const asText = /HUGEINT|__proto__/.test(type) ? await readAsText(job, name) : undefined;
    for (const [number, attributes] of records.entries()) {
      const expected: Model = attributes.get(attribute.replaceAll('\\0', '\0')) ?? { kind: 'null' };
      const row = `r${number}`;
      const found = asText === undefined ? rows.get(row)?.get(name) : asText.get(row);
      const isText = type === 'JSON' || asText !== undefined;
      const same = isText && typeof found === 'string' ? sameText(expected, found) : sameValue(expected, found);
      if (!same)
        throw new Error(
          `${name} (${type}) of r${number}: expected ${write(expected)}, found ${String(JSON.stringify(found))}`,
        );
    }
  }
  const named = new Set([...records, ...earlier].flatMap((attributes) => [...attributes.keys()]));
  expect(columns.size).toBe(named.size);
}

describe('values survive', () => {
  it('whatever they are, whatever their columns are called, and a second run finds no change', async () => {
    let number = 0;
    await fc.assert(
      fc.asyncProperty(streams, async (records) => {
        number += 1;
        const job = `values${number}`;
        await space.configure(job, [{ name: 'made', source: 'index_profiles', index: 'made', page_size: 5 }]);
        await space.control('profiles', { index: 'made', records: serialize(records) });
        const first = streamOf(await space.runWell(job), 'made');
        expect(first).toMatchObject({ rows: records.length, rejected: 0, duplicates: 0 });
        await checkSnapshot(job, records);
        const again = streamOf(await space.runWell(job), 'made');
        expect(again).toMatchObject({ inserted: 0, updated: 0, deleted: 0, unchanged: records.length });
      }),
      { numRuns: Number(process.env.CDSYNC_TEST_RUNS ?? 6), endOnFailure: true },
    );
  }, 300_000);

  it('when the next day has other values, of other types; unchanged rows count as unchanged', async () => {
    let number = 0;
    await fc.assert(
      fc.asyncProperty(streams, streams, async (before, changed) => {
        number += 1;
        const job = `days${number}`;
        const after = [...before.slice(0, 2), ...changed];
        const stream = {
          name: 'made',
          source: 'index_profiles',
          index: 'made',
          guards: { min_rows: 0, max_deleted: '100%', max_changed: '900%' },
        };
        await space.configure(job, [stream]);
        await space.control('profiles', { index: 'made', records: serialize(before) });
        await space.runWell(job);
        await space.control('profiles', { index: 'made', records: serialize(after) });
        const second = streamOf(await space.runWell(job), 'made');
        expect(second.unchanged).toBeGreaterThanOrEqual(Math.min(2, before.length));
        expect(second.deleted).toBe(Math.max(0, before.length - after.length));
        await checkSnapshot(job, after, before);
      }),
      { numRuns: Number(process.env.CDSYNC_TEST_RUNS ?? 6), endOnFailure: true },
    );
  }, 300_000);

  it.each([
    ['{}', '{"x":1}'],
    ['[{}]', '[{"x":[{"y":1.5}]},null]'],
    ['{"a":{},"n":123456789012345678901234567890}', '{"a":{"x":"é"},"n":null}'],
  ])('when %s on one day has members on the next: %s', async (first, second) => {
    const [job, record] = [
      'empty',
      (id: string, value: string) => `{"id":"${id}","index_id":"made","attributes":{"v":${value}}}`,
    ];
    await space.configure(job, [{ name: 'made', source: 'index_profiles', index: 'made' }], {
      storage: await mkdtemp(join(space.folder, 'data-')),
    });
    await space.control('profiles', { index: 'made', records: [record('r0', first), record('r1', first)] });
    await space.runWell(job);
    await space.control('profiles', { index: 'made', records: [record('r0', first), record('r1', second)] });
    expect(streamOf(await space.runWell(job), 'made')).toMatchObject({ updated: 1, unchanged: 1 });
  });

  it('when a field beside the attributes is called almost like them', async () => {
    await space.configure('almost', [{ name: 'made', source: 'index_profiles', index: 'made' }]);
    const records = ['{"id":"r0","Attributes":7,"attributes":{"attributes":1,"ATTRIBUTES":2}}'];
    await space.control('profiles', { index: 'made', records });
    await space.runWell('almost');
    const [row] = await space.query('almost', 'from made');
    expect(Object.values(row ?? {})).toEqual(expect.arrayContaining(['r0', '7', '1', '2']));
  });

  it('when one column is an integer on page 1, text on page 5 and an object on page 9', async () => {
    const kinds = (n: number) => (n < 40 ? String(n) : n < 80 ? `"text ${n}"` : `{"b":${n},"a":[null,${n}.0]}`);
    const records = Array.from(
      { length: 100 },
      (_, n) => `{"id":"r${n}","index_id":"made","attributes":{"mixed":${kinds(n)}${n === 99 ? ',"late":true' : ''}}}`,
    );
    await space.configure('mixed', [{ name: 'made', source: 'index_profiles', index: 'made', page_size: 10 }]);
    await space.control('profiles', { index: 'made', records });
    await space.runWell('mixed');
    const rows = await space.query(
      'mixed',
      "select id, mixed::varchar as mixed, late from made where id in ('r7', 'r50', 'r99') order by id",
    );
    expect(rows).toEqual([
      { id: 'r50', mixed: '"text 50"', late: null },
      { id: 'r7', mixed: '7', late: null },
      { id: 'r99', mixed: '{"a":[null,99],"b":99}', late: true },
    ]);
    expect(streamOf(await space.runWell('mixed'), 'made').unchanged).toBe(100);
  });

  it('when a string has a megabyte', async () => {
    const long = 'ä'.repeat(1_000_000);
    await space.configure('long', [{ name: 'made', source: 'index_profiles', index: 'made' }]);
    await space.control('profiles', {
      index: 'made',
      records: [JSON.stringify({ id: 'r0', index_id: 'made', attributes: { long } })],
    });
    await space.runWell('long');
    expect((await readParquet('long')).get('r0')?.get('long')).toBe(long);
  });
});
