import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ReportedError } from '../../src/core/run-report.js';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
const sql = (name: string, query: string) => ({ name, source: 'sql', key: ['id'], query });
const profile = (attributes: object) => JSON.stringify({ id: 'a', index_id: 'new', attributes });
const good = sql('good', 'select id from members');

/** Queries that cannot be run, with the message about each. */
const wrong: [string, ReturnType<typeof sql>, string, string | null][] = [
  ['is no SQL', sql('bad', 'selec id from members'), 'the query of stream "bad" is not a SELECT', null],
  ['has no statement', sql('bad', '-- members'), 'the query of stream "bad" is not a SELECT: no statement', null],
  [
    'reads a table that no one gives',
    sql('bad', 'select id from memberz'),
    'the query of stream "bad" reads "memberz", which is not a stream of the job',
    'did you mean "members"?',
  ],
  [
    'reads a column that its stream does not have',
    sql('bad', 'select id, tierr from members m'),
    'the query of stream "bad" reads column "tierr", which nothing that it reads has',
    'did you mean "tier"?',
  ],
  [
    'reads a column that another query does not return',
    sql('bad', 'select good.idd as id from good'),
    'the query of stream "bad" reads column "idd", which nothing that it reads has',
    'did you mean "id"?',
  ],
];

type Streams = readonly { name: string; status?: string; error: ReportedError | null }[];
const byName = (streams: Streams) => new Map(streams.map((stream) => [stream.name, stream]));

describe.each(wrong)('a query that %s', (what, bad, message, hint) => {
  const name = what.toLowerCase().replaceAll(' ', '_').slice(0, 40).replace(/_+$/, '');

  it('fails alone, and check and plan have the message of the run', async () => {
    await space.configure(name, [members, good]);
    await space.runWell(name);
    await space.configure(name, [members, good, bad, sql('over', 'select id from bad')]);

    const { code, report, stdout } = await space.run(name);
    const streams = byName(report.jobs[0]?.streams ?? []);
    expect([code, streams.get('members')?.status, streams.get('good')?.status]).toEqual([5, 'ok', 'ok']);
    const error = streams.get('bad')?.error;
    expect([error?.code, error?.message.startsWith(message), error?.message]).toEqual([
      'sql_failed',
      true,
      error?.message,
    ]);
    if (hint !== null) expect(error?.hint).toBe(hint);
    expect(streams.get('over')?.error?.code).toBe('dependency');
    expect(stdout).not.toMatch(/pg_namespace|DESCRIBE|LINE 1/);

    for (const command of ['check', 'plan']) {
      const ended = await space.cdsync([command, `${name}.json`, '--json']);
      const said = byName(JSON.parse(ended.stdout).streams);
      expect([command, ended.code, said.get('good')?.error, said.get('members')?.error]).toEqual([
        command,
        1,
        null,
        null,
      ]);
      const { message: shown, hint: remedy } = said.get('bad')?.error ?? {};
      expect([command, shown, remedy]).toEqual([command, error?.message, error?.hint]);
    }
  });
});

describe('a query over columns that change with the next run', () => {
  const tried = async (name: string) => {
    const errors: [string, string | undefined][] = [];
    for (const command of ['check', 'plan']) {
      const { stdout } = await space.cdsync([command, `${name}.json`, '--json']);
      errors.push([command, byName(JSON.parse(stdout).streams).get('tiers')?.error?.message]);
    }
    return errors;
  };
  const tiers = sql('tiers', 'select id, tier from members');

  it('is right if it reads one that is selected now, or that the service has now', async () => {
    await space.configure('selected', [{ ...members, select: ['email'] }]);
    await space.runWell('selected');
    await space.configure('selected', [{ ...members, select: ['email', 'tier'] }, tiers]);
    expect(await tried('selected')).toEqual([
      ['check', undefined],
      ['plan', undefined],
    ]);

    await space.control('profiles', { index: 'new', records: [profile({ email: 'e@x.example' })] });
    await space.configure('grown', [{ ...members, index: 'new' }]);
    await space.runWell('grown');
    await space.control('profiles', { index: 'new', records: [profile({ email: 'e@x.example', tier: 'gold' })] });
    await space.configure('grown', [{ ...members, index: 'new' }, tiers]);
    expect(await tried('grown')).toEqual([
      ['check', undefined],
      ['plan', undefined],
    ]);
  });

  it('is wrong if it reads one that is no longer selected', async () => {
    await space.configure('narrowed', [members]);
    await space.runWell('narrowed');
    await space.configure('narrowed', [{ ...members, select: ['email'] }, tiers]);
    const message = 'the query of stream "tiers" reads column "tier", which nothing that it reads has';
    expect(await tried('narrowed')).toEqual([
      ['check', message],
      ['plan', message],
    ]);
    const { report } = await space.run('narrowed');
    expect(byName(report.jobs[0]?.streams ?? []).get('tiers')?.error?.message).toBe(message);
  });
});

describe('queries over what changed', () => {
  const ledger = (name: string, query: string) => ({ ...sql(name, query), deletes: 'ignore', guards: { min_rows: 0 } });

  it.each([
    ['own', [ledger('own', 'select id from own__previous')], 'stream_circle', /stream own needs itself/],
    [
      'circle',
      [ledger('one', 'select id from two__previous'), ledger('two', 'select id from one')],
      'stream_circle',
      /one, two need each other/,
    ],
  ])('that need themselves fail, and check --offline says so: %s', async (name, streams, code, message) => {
    await space.configure(`needs_${name}`, [members, ...streams]);
    const { code: exit, report } = await space.run(`needs_${name}`);
    const errors = [report.error, ...(report.jobs[0]?.streams ?? []).map(({ error }) => error)];
    const error = errors.find((each) => each !== null && each !== undefined);
    expect([exit === 0, error?.code, error?.message]).toEqual([false, code, expect.stringMatching(message)]);
    const offline = await space.cdsync(['check', `needs_${name}.json`, '--offline', '--json']);
    expect([offline.code, offline.stdout]).toEqual([2, expect.stringMatching(message)]);
  });

  it('whose key repeats fail alone, and keep their rows', async () => {
    const serve = (ids: readonly string[]) =>
      space.control('profiles', {
        index: 'made',
        records: ids.map((id) => JSON.stringify({ id, index_id: 'made', attributes: { email: 'e@x.example' } })),
      });
    const made = { name: 'made', source: 'index_profiles', index: 'made' };
    await space.configure('repeats', [made, ledger('found', 'select email as id from made')]);
    await serve(['a']);
    await space.runWell('repeats');
    await serve(['a', 'b']);
    const { code, report } = await space.run('repeats');
    const streams = byName(report.jobs[0]?.streams ?? []);
    expect([code, streams.get('made')?.status, streams.get('found')?.error]).toMatchObject([
      5,
      'ok',
      { code: 'key_not_unique', message: 'the query has 1 row with the id of another row' },
    ]);
    expect(await space.query('repeats', 'select id from found')).toEqual([{ id: 'e@x.example' }]);
  });

  it('looks like a stream of such a name, which is refused', async () => {
    await space.configure('named', [members, sql('members__previous', 'select id from members')]);
    const { code, stderr } = await space.cdsync(['run', 'named.json']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('members__previous')]);
  });
});

describe('check --offline', () => {
  const offline = async (name: string, streams: Parameters<Workspace['configure']>[1]) => {
    await space.configure(name, streams, { service: { auth: { token: '${NOT_SET}' } } });
    const { code, stdout } = await space.cdsync(['check', `${name}.json`, '--offline', '--json']);
    const { error, problems = [] } = JSON.parse(stdout);
    return { code, message: error?.message, problems };
  };

  it('finds unknown streams, circles and what no query returns, each at its place', async () => {
    const { code, message, problems } = await offline('offline_wrong', [
      members,
      sql('a', 'select id from b'),
      sql('b', 'select id from a'),
      sql('c', 'select id from a'),
      sql('d', 'select id from memberz'),
      sql('e', 'select 1 as id'),
      sql('f', 'select idd as id from e'),
      { name: 'g', source: 'profiles', index: 'i', ids: { sql: 'select id from absent' } },
    ]);
    expect(code).toBe(2);
    const paths = problems.map(({ path }: { path: string }) => path.replace('jobs.offline_wrong.', ''));
    expect(paths).toEqual([
      'streams[1].query',
      'streams[2].query',
      'streams[4].query',
      'streams[6].query',
      'streams[7].ids.sql',
    ]);
    expect(problems[0].message).toContain('the streams a, b need each other');
    expect(problems[2].message).toContain('which is not a stream of the job; did you mean "members"?');
    expect(problems[3].message).toContain('reads column "idd", which nothing that it reads has; did you mean "id"?');
    expect(message).toMatch(/^offline_wrong\.json:\d+:\d+ /);
    expect(message).not.toMatch(/pg_namespace|LINE 1/);
  });

  it('knows the rows that a query saw before, names of WITH, and files', async () => {
    const { code } = await offline('offline_right', [
      members,
      sql(
        'a',
        'with m as (select id from members) select id from m where id not in (select id from members__previous)',
      ),
      sql('b', "select id, anything from members join read_csv('absent.csv') using (id)"),
    ]);
    expect(code).toBe(0);
  });
});
