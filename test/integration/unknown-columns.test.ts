import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { StreamReport } from '../../src/core/run-report.js';
import { streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 300 });
});
afterAll(() => space.close());

type Options = Record<string, unknown>;

async function serve(attributes: (n: number) => Options, count = 20): Promise<void> {
  const records = Array.from({ length: count }, (_, n) =>
    JSON.stringify({ id: `r${n}`, index_id: 'made', attributes: attributes(n) }),
  );
  await space.control('profiles', { index: 'made', records });
}

const people = (n: number) => ({ email: `p${n}@example.com`, tier: 'gold', consents: { email: true }, city: 'Ulm' });
const made = (more: Options) => ({ name: 'made', source: 'index_profiles', index: 'made', ...more });

/** Configures a job with one stream and runs it. */
async function runWith(job: string, more: Options, words: readonly string[] = []) {
  await space.configure(job, [made(more)]);
  const ended = await space.run(job, words);
  const [of] = ended.report.jobs;
  if (of === undefined) throw new Error(`no report: ${ended.stderr}`);
  return { ...ended, job: of, stream: streamOf(of, 'made') };
}

const codes = ({ warnings }: StreamReport) => warnings.map(({ code }) => code);

describe('a rule that hides values and matches no column', () => {
  it.each([
    ['emial', { drop: true }, 'did you mean "email"?'],
    ['emial', { hash: true, salt: 'a long salt of the test' }, 'did you mean "email"?'],
    ['emails', { mask: 'all' }, 'did you mean "email"?'],
    ['consents.email', { drop: true }, 'a rule concerns a whole column, here consents'],
    ['attributes.emial', { drop: true }, 'did you mean "attributes.email"?'],
  ])('holds the first run: %s %j', async (name, rule, said) => {
    await serve(people);
    const { code, stream, stderr, job } = await runWith('hidden', { columns: { [name]: rule } }, ['--full']);
    expect([code, stream.status, stream.error?.code]).toEqual([3, 'held', 'column_unknown']);
    expect(stream.error?.message).toContain(said);
    expect(stream.unmatched_rules).toEqual([name]);
    expect(job.sequence).toBeNull();
    expect(stderr).toContain('correct the name');
  });

  it('holds also where guards only warn, and after a first run without rows', async () => {
    await serve(people, 0);
    const columns = { emial: { drop: true } };
    const empty = await runWith('later', { columns, guards: { action: 'warn' } });
    expect([empty.code, empty.stream.rows, codes(empty.stream)]).toEqual([0, 0, ['no_rows']]);
    await serve(people);
    const { code, stream } = await runWith('later', { columns, guards: { action: 'warn' } });
    expect([code, stream.error?.code]).toEqual([3, 'column_unknown']);
  });

  it('lets the corrected configuration through, and an approval', async () => {
    await serve(people);
    const held = await runWith('mended', { columns: { emial: { drop: true } } });
    expect(held.code).toBe(3);
    const mended = await runWith('mended', { columns: { email: { drop: true } } });
    expect([mended.code, mended.stream.unmatched_rules, codes(mended.stream)]).toEqual([0, [], []]);
    expect(Object.keys((await space.query('mended', 'from made limit 1'))[0] ?? {})).not.toContain('email');

    const phone = await runWith('approved', { columns: { phone: { drop: true } } });
    expect(phone.code).toBe(3);
    const { code } = await space.cdsync(['approve', 'approved.json', phone.job.run_id]);
    expect(code).toBe(0);
    const after = await runWith('approved', { columns: { phone: { drop: true } } });
    expect([after.code, after.stream.unmatched_rules, codes(after.stream)]).toEqual([0, ['phone'], ['column_unknown']]);
  });

  it('warns in later runs, in the report and on the last lines, as long as it matches nothing', async () => {
    await serve(people);
    await runWith('warned', { columns: { city: { drop: true } } });
    const columns = { city: { drop: true }, emial: { drop: true } };
    for (const turn of [1, 2]) {
      const { code, stream } = await runWith('warned', { columns });
      expect([turn, code, stream.unmatched_rules, codes(stream)]).toEqual([turn, 0, ['emial'], ['column_unknown']]);
    }
    const { stdout } = await space.cdsync(['run', 'warned.json']);
    expect(stdout).toContain('warning: made: columns: no column "emial" to drop; did you mean "email"?');
    const mended = await runWith('warned', { columns: { city: { drop: true }, email: { drop: true } } });
    expect([mended.stream.unmatched_rules, codes(mended.stream)]).toEqual([[], []]);
  });
});

describe('other names that no column has', () => {
  it('warn, and hold nothing', async () => {
    await serve(people);
    const { code, stream } = await runWith('named', {
      columns: { teir: { rename: 'level' }, Citty: { type: 'text' } },
      guards: { unique: ['emial'], max_null: { loyaltyid: '5%' } },
    });
    expect([code, stream.status, codes(stream).sort()]).toEqual([
      0,
      'ok',
      ['column_unknown', 'column_unknown', 'guard_column_unknown', 'guard_column_unknown'],
    ]);
    expect(stream.warnings.map(({ message }) => message).join('\n')).toContain('guards.unique: no column "emial"');
    expect(stream.unmatched_rules).toEqual(['teir', 'Citty']);
  });

  it('are no fault where a rule, a guard and a partition match', async () => {
    await serve(people);
    const { code, stream } = await runWith('right', {
      columns: { tier: { rename: 'level' }, consents: { drop: true }, 'attributes.city': { mask: 'all' } },
      guards: { unique: ['email'], max_null: { level: '5%' } },
    });
    expect([code, codes(stream), stream.unmatched_rules]).toEqual([0, [], []]);
  });
});

describe('rename', () => {
  it('refuses the name of another column, unless that gives its name away', async () => {
    await serve(people);
    const { code, stream } = await runWith('renamed', { columns: { tier: { rename: 'City' } } });
    expect([code, stream.status, stream.error?.code]).toEqual([1, 'failed', 'column_name_taken']);
    const swapped = await runWith('renamed', { columns: { tier: { rename: 'city' }, city: { rename: 'tier' } } });
    expect(swapped.code).toBe(0);
    const dropped = await runWith('given', { columns: { tier: { rename: 'city' }, city: { drop: true } } });
    expect(dropped.code).toBe(0);
  });

  it('keeps a column under its new name when an attribute of that name appears later', async () => {
    await serve(() => ({ tier: 'gold' }));
    await runWith('grown', { columns: { tier: { rename: 'city' } } });
    await serve(() => ({ tier: 'gold', city: 'Ulm' }));
    const { code, stream } = await runWith('grown', {
      columns: { tier: { rename: 'city' } },
      guards: { max_changed: 'off' },
    });
    expect([code, codes(stream)]).toEqual([0, ['column_name_taken']]);
    expect((await space.query('grown', 'select distinct city from made'))[0]).toEqual({ city: 'gold' });
  });
});

describe('guards', () => {
  it('with 100% or off allow any number of changes and deletes', async () => {
    for (const limit of ['100%', 'off']) {
      await serve(people, 25);
      const guards = { max_changed: limit, max_deleted: limit };
      await runWith('allowing', { guards }, ['--full', '--accept']);
      const records = Array.from({ length: 22 }, (_, n) =>
        JSON.stringify({ id: `other-${limit}-${n}`, index_id: 'made', attributes: people(n) }),
      );
      await space.control('profiles', { index: 'made', records });
      const { code, stream } = await runWith('allowing', { guards });
      expect([limit, code, stream.inserted, stream.deleted]).toEqual([limit, 0, 22, 25]);
    }
  });

  it('say how many changes there are, and the limit, in the same unit', async () => {
    await serve(people, 25);
    await runWith('said', {});
    const records = Array.from({ length: 22 }, (_, n) =>
      JSON.stringify({ id: n < 3 ? `r${n}` : `other-${n}`, index_id: 'made', attributes: people(n) }),
    );
    await space.control('profiles', { index: 'made', records });
    const { code, stream } = await runWith('said', { guards: { max_changed: '99%', max_deleted: 'off' } });
    expect([code, stream.findings]).toEqual([
      3,
      [{ guard: 'max_changed', message: '41 changes on 25 rows (164%); the limit is 99%' }],
    ]);
  });

  it('with action: warn publish, and say what failed', async () => {
    await serve(people, 25);
    await runWith('passing', {});
    await serve(people, 5);
    const { code, stream, job } = await runWith('passing', { guards: { action: 'warn' } });
    expect([code, job.status, stream.status, stream.deleted, stream.error]).toEqual([0, 'ok', 'ok', 20, null]);
    expect(stream.findings.map(({ guard }) => guard)).toEqual(['max_deleted', 'max_changed']);
    expect(codes(stream)).toEqual(['guard_max_deleted', 'guard_max_changed']);
    await serve(people, 0);
    const empty = await runWith('passing', { guards: { action: 'warn' } });
    expect([empty.code, empty.stream.rows, codes(empty.stream)]).toEqual([0, 0, ['empty_answer']]);
  });
});

describe('a first run whose filter matches nothing', () => {
  it('says so, and publishes a table with the columns that are known', async () => {
    const stream = { name: 'made', source: 'index_profiles', index: 'loyalty_members', filter: { tier: 'absent' } };
    await space.configure('absent', [stream]);
    const { code, report } = await space.run('absent');
    const warnings = report.jobs[0]?.streams[0]?.warnings;
    expect([code, warnings]).toEqual([
      0,
      [{ code: 'no_rows', message: 'the service has no records that its filter matches: 0 rows' }],
    ]);
    expect(await space.query('absent', "select id, tier from made where tier = 'gold'")).toEqual([]);
    await space.configure('absent', [{ ...stream, filter: { tier: 'gold' } }]);
    expect((await space.run('absent', ['--accept'])).code).toBe(0);
    expect((await space.query('absent', 'select distinct tier from made'))[0]).toEqual({ tier: 'gold' });
  });
});

describe('check', () => {
  it('with --offline reads the file alone, and shows mistakes at their lines on GitHub', async () => {
    await space.configure('alone', [made({ colums: {} })]);
    const { code, stderr } = await space.cdsync(['check', 'alone.json', '--offline'], {
      GITHUB_ACTIONS: 'true',
      CDS_TOKEN: '',
    });
    expect(code).toBe(2);
    expect(stderr).toMatch(/^::error file=alone.json,line=\d+,col=\d+::jobs.alone.streams\[0\].colums: unknown key/m);
    await space.configure('alone', [made({})], {
      service: { base_url: 'http://127.0.0.1:1', auth: { token: '${NONE}' } },
    });
    const well = await space.cdsync(['check', 'alone.json', '--offline', '--json']);
    expect([well.code, JSON.parse(well.stdout)]).toMatchObject([0, { status: 'ok', unset: ['NONE'] }]);
  });

  it('says beforehand which names match no column, and writes nothing', async () => {
    await serve(people);
    await space.configure('checked', [
      made({
        columns: {
          emial: { drop: true },
          'consents.email': { mask: 'all' },
          city: { drop: true },
          tier: { rename: 'email' },
        },
        guards: { unique: ['loyaltyid'], max_null: { consents: '5%' } },
      }),
    ]);
    const { code, stdout } = await space.cdsync(['check', 'checked.json', '--json']);
    const { warnings } = JSON.parse(stdout) as { warnings: string[] };
    expect([code, warnings]).toEqual([
      0,
      [
        'made: columns: no column "emial" to drop in a sample of 20 records; did you mean "email"? [column_unknown]',
        'made: columns: no column "consents.email" to mask in a sample of 20 records; a rule concerns a whole column, here consents [column_unknown]',
        'made: guards.unique: no column "loyaltyid" in a sample of 20 records, so nothing is checked [guard_column_unknown]',
        'made: columns: attributes.tier cannot be renamed to email: attributes.email has it [column_name_taken]',
      ],
    ]);
    expect((await space.cdsync(['check', 'checked.json'])).stdout).toContain(
      'warning: made: columns: no column "emial"',
    );
  });

  it('fails for a stream if a request can be sent, but no page can be read', async () => {
    await serve(people);
    await space.configure('ignored', [made({ filter: { tier: 'silver' }, columns: { city: { drop: true } } })]);
    await space.control('faults', { kind: 'ignore_filter' });
    try {
      const { code, stdout } = await space.cdsync(['check', 'ignored.json', '--json']);
      const { status, streams } = JSON.parse(stdout) as { status: string; streams: { error: { code: string } }[] };
      expect([code, status, streams[0]?.error?.code]).toEqual([1, 'failed', 'filter_ignored']);
    } finally {
      await space.clearFaults();
    }
  });

  it('with --contract fails for a stream that a run would refuse', async () => {
    await serve(people);
    expect((await runWith('refused', {})).code).toBe(0);
    await space.configure('refused', [made({ index: 'loyalty_members' })]);
    const { code, stdout } = await space.cdsync(['check', 'refused.json', '--contract', '--json']);
    const { streams } = JSON.parse(stdout) as { streams: { error: { code: string } }[] };
    expect([code, streams[0]?.error?.code]).toEqual([1, 'definition_changed']);
  });
});
