import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { filesHolding } from '../fixtures/files-holding.js';
import { streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10, rateLimits: { management: 0 } });
});
afterAll(() => space.close());

type Options = Record<string, unknown>;

async function serve(records: Record<string, Options>): Promise<void> {
  const texts = Object.entries(records).map(([id, attributes]) => JSON.stringify({ id, index_id: 'made', attributes }));
  await space.control('profiles', { index: 'made', records: texts });
}

async function configure(job: string, stream: Options, of: Options = {}): Promise<void> {
  await space.configure(job, [{ name: 'made', source: 'index_profiles', index: 'made', page_size: 2, ...stream }], {
    job: { guards: { min_rows: 0 }, ...of },
  });
}

async function runWell(job: string) {
  const { code, report, stderr } = await space.run(job);
  expect([code, stderr]).toEqual([0, stderr]);
  return { stderr, stream: streamOf(report.jobs[0] as never, 'made') };
}

const columnsOf = async (job: string) =>
  (await space.query(job, "select column_name as name from (describe made) where column_name[1] <> '_'")).map(
    ({ name }) => name,
  );

const people = {
  a: { email: 'a@example.com', tier: 'gold', passport: 'canary-1' },
  b: { email: 'b@example.com', tier: 'iron', passport: 'canary-2' },
};

describe('select', () => {
  it.each([
    ['select', { select: ['email', 'tier'] }],
    [
      'a rule for all other columns',
      { columns: { email: { track: true }, tier: { track: true }, '*': { drop: true } } },
    ],
  ])('stores nothing of other attributes, and reports new ones once: %s', async (name, stream) => {
    const job = `kept_${name.length}`;
    await serve(people);
    await configure(job, stream);
    const first = await runWell(job);
    expect(first.stream.warnings).toEqual([
      { code: 'column_unselected', message: 'attribute passport is not selected, so nothing of it is kept' },
    ]);
    expect(await columnsOf(job)).toEqual(['id', 'index_id', 'email', 'tier']);
    await serve({ ...people, c: { email: 'c@example.com', passport_no: 'canary-3' } });
    const second = await runWell(job);
    expect(second.stream).toMatchObject({
      inserted: 1,
      unchanged: 2,
      not_selected: ['attributes.passport', 'attributes.passport_no'],
    });
    expect(second.stream.warnings[0]?.message).toContain('new attribute passport_no is not selected');
    expect((await runWell(job)).stream.warnings).toEqual([]);
    expect(await columnsOf(job)).toEqual(['id', 'index_id', 'email', 'tier']);
    expect(await filesHolding(space.folder, ['canary'])).toEqual([]);
  });

  it('removes attributes from everything that is stored, and from destinations', async () => {
    await serve(people);
    const path = join(space.folder, 'copy.duckdb');
    const destinations = [
      { name: 'whole', connector: 'duckdb', path },
      { name: 'part', connector: 'duckdb', path: join(space.folder, 'part.duckdb'), select: ['tier'] },
    ];
    await configure('later', {}, { destinations });
    await runWell('later');
    await serve({ ...people, a: { ...people.a, passport: 'canary-9' } });
    await runWell('later');
    expect((await filesHolding(space.jobFolder('later'), ['canary'])).length).toBeGreaterThan(3);
    await configure('later', { select: ['email', 'tier'] }, { destinations });
    expect((await runWell('later')).stream).toMatchObject({ updated: 0, unchanged: 2, warnings: [] });
    expect(await filesHolding(space.jobFolder('later'), ['canary'])).toEqual([]);
    expect((await space.cdsync(['verify', 'later.json'])).code).toBe(0);
    const delivered = async (file: string, sql: string) => {
      const instance = await DuckDBInstance.create(file, { access_mode: 'READ_ONLY' });
      const connection = await instance.connect();
      const rows = (await connection.runAndReadAll(sql)).getRowsJson();
      connection.closeSync();
      instance.closeSync();
      return rows;
    };
    expect(await delivered(path, 'select passport from made')).toEqual([[null], [null]]);
    const part = await delivered(destinations[1]?.path ?? '', 'select column_name from (describe made)');
    expect(part.flat()).toEqual(['id', 'index_id', 'tier', '_synced_at']);
  });

  it('is the same as a drop of all other attributes', async () => {
    const names = ['email', 'Tier', 'attributes.id', 'marks', 'é', 'a.b'];
    const records = fc.array(fc.subarray(names), { minLength: 4, maxLength: 4 });
    const versions = fc.array(records, { minLength: 2, maxLength: 2 });
    let round = 0;
    const isSame = async (select: string[], all: string[][][]) => {
      round += 1;
      const jobs = [`selects${round}`, `drops${round}`] as const;
      await configure(jobs[0], { select });
      const others = names.filter((name) => !select.includes(name));
      await configure(jobs[1], { columns: Object.fromEntries(others.map((name) => [name, { drop: true }])) });
      for (const [version, people] of all.entries()) {
        const record = (present: string[], n: number) =>
          [
            `r${n}`,
            Object.fromEntries(present.map((name) => [name.replace('attributes.', ''), `${name} ${version} ${n}`])),
          ] as const;
        await serve(Object.fromEntries([...people, names].map(record)));
        for (const job of jobs) expect((await space.run(job, ['--accept'])).code).toBe(0);
      }
      const rows = (job: string) =>
        space.query(
          job,
          `select 'now' as place, columns(c -> c[1] <> '_') from made union all by name
           select 'history', columns(c -> c[1] <> '_') from made__history union all by name
           select 'changes', _op, columns(c -> c[1] <> '_') from made__changes order by all`,
        );
      expect(await rows(jobs[0])).toEqual(await rows(jobs[1]));
    };
    await fc.assert(fc.asyncProperty(fc.subarray(names, { minLength: 1 }), versions, isSame), {
      numRuns: 2,
      endOnFailure: true,
    });
  });
});

describe('names that select cannot keep', () => {
  it('warns of an attribute that no record has, and refuses a destination that selects one', async () => {
    await serve(people);
    const destinations = [{ name: 'part', connector: 'duckdb', path: './wrong.duckdb', select: ['emial'] }];
    await configure('wrong', { select: ['emial', 'email'] }, { destinations });
    const { report } = await space.run('wrong');
    const stream = streamOf(report.jobs[0] as never, 'made');
    expect([stream.status, stream.warnings.map(({ message }) => message)]).toEqual([
      'ok',
      [
        'attributes passport, tier are not selected, so nothing of them is kept',
        'select: no column "emial"; did you mean "email"?',
      ],
    ]);
    expect(report.jobs[0]?.destinations[0]?.error?.code).toBe('column_unknown');
  });
});
