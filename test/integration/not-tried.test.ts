import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

const made = { name: 'made', source: 'index_profiles', index: 'made' };
const other = { name: 'other', source: 'index_profiles', index: 'made' };
const warehouse = { name: 'warehouse', connector: 'duckdb', path: './warehouse.duckdb' };

async function runWith(name: string, streams: readonly Record<string, unknown>[]) {
  await space.configure(name, streams, { job: { destinations: [{ ...warehouse, path: `./${name}.duckdb` }] } });
  const { code, report, stderr } = await space.run(name);
  return { code, status: report.status, destinations: report.jobs[0]?.destinations.map((each) => each.status), stderr };
}

describe('a destination whose stream did not get so far', () => {
  beforeAll(async () => {
    const records = ['a', 'b'].map((id) => JSON.stringify({ id, index_id: 'made', attributes: { n: 1 } }));
    await space.control('profiles', { index: 'made', records });
  });

  it.each([
    ['held', { guards: { min_rows: 5 } }, 3, 'held'],
    ['failing', { index: 'nowhere' }, 1, 'failed'],
  ])('is not tried, if the stream is %s', async (name, more, code, status) => {
    expect(await runWith(name, [{ ...made, ...more }])).toMatchObject({ code, status, destinations: ['not_tried'] });
    const push = await space.cdsync(['push', `${name}.json`, '--json']);
    expect([push.code, JSON.parse(push.stdout)]).toMatchObject([1, { status: 'failed' }]);
  });

  it('is not tried beside one that is, and the last line is about the stream', async () => {
    const ended = await runWith('mixed', [made, { ...other, index: 'nowhere' }]);
    expect(ended).toMatchObject({ code: 5, status: 'partial', destinations: ['ok', 'not_tried'] });
    expect(ended.stderr).toContain('correct the stream in the configuration, then: cdsync check mixed.json');
  });

  it('is no reason to leave exit code 4', async () => {
    await space.configure('refused', [made], { job: { destinations: [warehouse] }, service: { auth: { token: 'x' } } });
    const { code, report } = await space.run('refused');
    expect([code, report.jobs[0]?.destinations[0]?.status]).toEqual([4, 'not_tried']);
  });
});
