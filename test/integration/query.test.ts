import { once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { tableFromIPC } from 'apache-arrow';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ended, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 100 });
  await space.configure('nightly', [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }]);
  expect((await space.cdsync(['run', 'nightly.json'])).code).toBe(0);
  await writeFile(join(space.folder, 'notes.csv'), 'word\nplugh\n');
}, 60_000);
afterAll(() => space.close());

describe('cdsync query', () => {
  it('refuses SQL that opens a file, and names the flag that allows it', async () => {
    const { code, stdout, stderr } = await space.cdsync(['query', 'nightly.json', "from 'notes.csv'"]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(/refused: Permission Error: .* \[sql_not_allowed\]\n {2}.*--allow-files/);
  });

  it('says that SQL needs quotes, if it is refused without them', async () => {
    // As a shell passes `select * from members where tier is gold` in a folder with these files.
    const words = ['select', 'notes.csv', 'nightly.json', 'from', 'members'];
    const { code, stderr } = await space.cdsync(['query', 'nightly.json', ...words]);
    expect([code, stderr.trimEnd().split('\n').at(-1)]).toEqual([
      2,
      expect.stringMatching(/^put the whole SQL in quotes, .*: cdsync query nightly\.json "select \* from members" \(/),
    ]);
    const whole = await space.cdsync(['query', 'nightly.json', words.join(' ')]);
    expect(whole.stderr.trimEnd().split('\n').at(-1)).toMatch(/^correct the SQL; the tables: /);
  });

  it.each(['json', 'csv', 'table', 'markdown'])('keeps a U+FEFF at the start of a text: %s', async (format) => {
    const words = ['query', 'nightly.json', "select chr(65279) || 'a' as x, chr(65279) || repeat('b', 20) as y"];
    const { stdout } = await space.cdsync([...words, '--format', format]);
    expect(stdout.match(/(?:\ufeff|\\ufeff)(?=a|b{20})/g)).toHaveLength(2);
  });

  it('writes no file', async () => {
    const before = await readdir(space.folder);
    const { code } = await space.cdsync(['query', 'nightly.json', "copy members to 'taken.csv'"]);
    expect(code).toBe(2);
    expect(await readdir(space.folder)).toEqual(before);
  });

  it('opens files with --allow-files', async () => {
    const words = ['query', 'nightly.json', "from 'notes.csv'", '--allow-files', '--format', 'csv'];
    expect(await space.cdsync(words)).toMatchObject({ code: 0, stdout: 'word\nplugh\n' });
  });

  it('escapes formulas in CSV unless it must keep them', async () => {
    const words = ['query', 'nightly.json', "select '=1+1' as sum", '--format', 'csv'];
    expect((await space.cdsync(words)).stdout).toBe("sum\n'=1+1\n");
    expect((await space.cdsync([...words, '--csv-formulas', 'keep'])).stdout).toBe('sum\n=1+1\n');
    expect((await space.cdsync([...words, '--csv-formulas', 'drop'])).code).toBe(2);
    expect((await space.cdsync([...words, '--json'])).stderr).toContain('--json and --format csv are two formats');
  });
});

/** CPU time of a process. Its start takes less than three seconds, a long query all that there are. */
async function cpuSeconds(id = 0): Promise<number> {
  const figures = (await readFile(`/proc/${id}/stat`, 'utf8')).replace(/^.*\) /s, '').split(' ');
  return (Number(figures[11]) + Number(figures[12])) / 100;
}

it.runIf(process.platform === 'linux').each([
  ['SIGINT', 'query', ['query', 'nightly.json', 'select count(*) from range(1000000000000)', '--json']],
  ['SIGTERM', 'query', ['query', 'nightly.json', 'select count(*) from range(1000000000000)', '--json']],
] as const)('%s ends a long %s with a document and the next command', async (signal, _, words) => {
  const child = space.spawn(words);
  const end = ended(child);
  await expect.poll(() => cpuSeconds(child.pid), { timeout: 60_000 }).toBeGreaterThan(3);
  child.kill(signal);
  const { code, stdout, stderr } = await end;
  expect([code, JSON.parse(stdout)]).toMatchObject([130, { status: 'interrupted', error: { code: 'interrupted' } }]);
  expect(stderr).toMatch(
    /^stopping .*\nerror: interrupted \[interrupted\]\nnext: cdsync status nightly\.json \(.*\)\n$/,
  );
});

describe.each([
  ['table', ['--format', 'table']],
  ['csv', ['--format', 'csv']],
  ['json', ['--format', 'json']],
  ['markdown', ['--format', 'markdown']],
  ['arrow', ['--format', 'arrow']],
  ['json document', ['--json']],
  ['csv, with files allowed', ['--format', 'csv', '--allow-files']],
])('a query that fails after its first rows, as %s', (_, format) => {
  const query = (sql: string) => space.cdsync(['query', 'nightly.json', sql, ...format]);

  const late = (row: number) =>
    `select range, case range when ${row} then id else '7' end::double as score from range(1000000) join members
       on id = (select min(id) from members)`;
  it.each([
    ['the last row', late(999_999)],
    ['row 900,000', late(900_000)],
  ])('fails with an error in %s, quotes no value, and writes no whole document', async (_, sql) => {
    const { code, stdout, stderr } = await query(sql);
    expect([code, stderr]).toEqual([
      2,
      expect.stringMatching(/^error: DuckDB refused the query \(Conversion Error; [^']*\[sql_failed\]\n/),
    ]);
    expect(stderr).not.toContain('lm-');
    // The end of a table, or of a document of rows.
    expect(stdout).not.toMatch(/\(\d+ rows?\)|\]\n$|\0\0\0\0$/);
  });

  it("shows DuckDB's message about its own text", async () => {
    const sql = `select range,\n case range when 999999 then 'n/a' else '7' end::double from range(1000000)`;
    const { code, stderr } = await query(sql);
    expect(code).toBe(2);
    expect(stderr).toContain("Could not convert string 'n/a' to DOUBLE");
    expect(stderr).toContain('LINE 2: ');
  });

  it('fails too after another statement', async () => {
    const { code, stderr } = await query(
      `set variable n = 999999; ${late(0).replace('when 0', "when getvariable('n')")}`,
    );
    expect([code, stderr]).toEqual([1, expect.stringContaining('before the end of a result')]);
  });
});

it('a query of a million rows has them all, in each format', async () => {
  for (const [format, lines] of [
    ['csv', 1_000_001],
    ['json', 1_000_000],
    ['markdown', 1_000_002],
  ]) {
    const { code, stdout } = await space.cdsync([
      ...['query', 'nightly.json', 'select range as n from range(1000000)', '--format', String(format)],
    ]);
    expect([code, stdout.trimEnd().split('\n').length]).toEqual([0, lines]);
  }
});

it('Arrow has every row, in bytes', async () => {
  const child = space.spawn(['query', 'nightly.json', 'select range as n from range(100000)', '--format', 'arrow']);
  const parts: Buffer[] = [];
  child.stdout?.on('data', (part: Buffer) => parts.push(part));
  expect(await once(child, 'close')).toEqual([0, null]);
  const numbers = tableFromIPC(Buffer.concat(parts)).getChild('n')?.toArray() as BigInt64Array;
  expect([numbers.length, numbers.every((number, row) => number === BigInt(row))]).toEqual([100_000, true]);
});

it.each([
  ['SIGINT', 'csv'],
  ['SIGTERM', 'json'],
  ['SIGINT', 'markdown'],
  ['SIGTERM', 'arrow'],
] as const)('%s in the middle of %s ends it as interrupted', async (signal, format) => {
  const child = space.spawn([
    'query',
    'nightly.json',
    'select range, 1 as n from range(300000000)',
    '--format',
    format,
  ]);
  child.stdout?.once('data', () => child.kill(signal));
  let [bytes, stderr] = [0, ''];
  child.stdout?.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  child.stderr?.on('data', (chunk) => {
    stderr += chunk;
  });
  expect(await once(child, 'close')).toEqual([130, null]);
  expect(stderr).toContain('error: interrupted [interrupted]\n');
  expect(bytes).toBeLessThan(300_000_000);
});

describe('the output of cdsync', () => {
  const clear = '\x1b[2J\x9b1m\u202E';
  const obeyed = /[^\P{Cc}\n]|\p{Bidi_Control}/u;

  it('has no control characters from values and names of columns', async () => {
    const sql = `select '${clear}' || chr(10) || 'next: all is well' as "a${clear}", 1 as n`;
    const { stdout } = await space.cdsync(['query', 'nightly.json', sql]);
    expect(stdout).not.toMatch(obeyed);
    expect(stdout.split('\n')).toHaveLength(4);
    expect(stdout).toContain('\\x1b[2J\\x9b1m\\u202e\\nnext: all is well');
  });

  it('keeps values exact in JSON and in CSV for a program', async () => {
    const sql = `select '${clear}' as a`;
    const json = await space.cdsync(['query', 'nightly.json', sql, '--format', 'json']);
    expect(json.stdout).not.toMatch(obeyed);
    expect(JSON.parse(json.stdout)).toEqual([{ a: clear }]);
    const csv = await space.cdsync(['query', 'nightly.json', sql, '--format', 'csv']);
    expect(csv.stdout).toBe(`a\n${clear}\n`);
  });

  it.each([
    ['names of files', ['check', `${clear}.json`]],
    ['words of the command line', ['check', `--${clear}`]],
    ['SQL', ['query', 'nightly.json', `select "${clear}"`]],
    ['names of streams', ['diff', 'nightly.json', clear]],
    ['names of jobs', ['status', 'nightly.json', '--job', clear]],
    ['names of variables files', ['check', 'nightly.json', '--env-file', clear]],
  ])('has none from %s', async (_, words) => {
    for (const format of ['text', 'json']) {
      const { code, stdout, stderr } = await space.cdsync([...words, '--log-format', format]);
      expect(code).toBe(2);
      expect(stdout + stderr).not.toMatch(obeyed);
    }
  });

  it('has none from the configuration, and a line in a name cannot pass itself off as one of ours', async () => {
    await writeFile(join(space.folder, 'odd.json'), JSON.stringify({ version: 1, [`x${clear}\nnext: rm -r`]: 1 }));
    const { stderr } = await space.cdsync(['check', 'odd.json']);
    expect(stderr).not.toMatch(obeyed);
    expect(stderr.split('\n').filter((line) => line.startsWith('next: rm'))).toEqual([]);
  });
});
