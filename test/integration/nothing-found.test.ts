import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
let jobs = 0;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 40 });
  const records = ['a', 'b'].map((id) => JSON.stringify({ id, index_id: 'made', attributes: { n: id } }));
  await space.control('profiles', { index: 'made', records, filterable: ['n', 'part'] });
  await space.control('profiles', { index: 'none', records: [] });
});
afterAll(() => space.close());

const made = { name: 'made', source: 'index_profiles', index: 'made' };

/** Runs a job with these streams. */
async function runWith(...streams: readonly Record<string, unknown>[]) {
  const name = `silent${++jobs}`;
  await space.configure(name, streams);
  return { name, ...(await space.run(name)) };
}

describe('nothing is not found in silence', () => {
  it.each([
    ['a list without records', { ...made, index: 'none' }, 'the service has no records: 0 rows'],
    [
      'a filter that matches none',
      { ...made, filter: { n: 'c' } },
      'the service has no records that its filter matches: 0 rows',
    ],
    [
      'a query without rows',
      { name: 'none', source: 'sql', key: ['id'], query: "select id from made where id = 'c'" },
      'the query has no rows: 0 rows',
    ],
  ])('%s is a warning of the first run', async (_, stream, message) => {
    const streams = stream.source === 'sql' ? [made, stream] : [stream];
    const { code, report, stderr } = await runWith(...streams);
    expect([code, stderr]).toEqual([0, expect.anything()]);
    const found = streamOf(report.jobs[0] as never, stream.name);
    expect(found).toMatchObject({ status: 'ok', rows: 0, warnings: [{ code: 'no_rows', message }] });
  });

  it('an empty value of a filter is an error, unless the stream may be empty', async () => {
    const stream = { ...made, filter: { n: '${UNSET:-}' } };
    const { code, report } = await runWith(stream);
    expect([code, streamOf(report.jobs[0] as never, 'made').error?.code]).toEqual([1, 'filter_empty']);
    const allowed = await runWith({ ...stream, guards: { min_rows: 0 } });
    expect(allowed.code).toBe(0);
  });

  it.each([
    ['ids.txt', { source: 'profiles', index: 'made' }],
    ['ids.csv', { source: 'realtime_profiles', collection: 'col-1' }],
  ])('an empty file %s of ids is an error, unless the stream may be empty', async (file, options) => {
    await writeFile(join(space.folder, file), file.endsWith('csv') ? 'id\n' : '\n');
    const stream = { name: 'asked', ...options, ids: { file: `./${file}` } };
    const { code, report } = await runWith(stream);
    expect([code, streamOf(report.jobs[0] as never, 'asked').error?.code]).toEqual([1, 'key_file_invalid']);
    expect((await runWith({ ...stream, guards: { min_rows: 0 } })).code).toBe(0);
  });

  it('partitions by an attribute that no record has are a warning of each run', async () => {
    await space.control('faults', { kind: 'ignore_filter' });
    const stream = { ...made, partition_by: { attribute: 'part', values: ['x', 'y', 'z'] } };
    const { name, report } = await runWith(stream);
    const codes = (found: typeof report) => streamOf(found.jobs[0] as never, 'made').warnings.map(({ code }) => code);
    expect(codes(report)).toEqual(['column_unknown']);
    expect(codes((await space.run(name)).report)).toEqual(['column_unknown']);
    await space.clearFaults();
  });
});
