import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { FileMaker } from '../../../connectors/export/make.js';
import { checkExport, exportOptions } from '../../../connectors/export/options.js';
import { mapColumn } from '../../../connectors/export/text.js';
import { parseColumnType } from '../../../src/sdk/column-type.js';
import { map, unwrap } from '../../../src/sdk/option.js';
import { Database, type Session } from '../../../src/storage/duckdb.js';

let folder: string;
let database: Database;
let session: Session;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-export-text-'));
  database = await Database.open({ memoryMb: 128, threads: 1 });
  session = await database.connect();
});
afterAll(async () => {
  session.close();
  database.close();
  await rm(folder, { recursive: true, force: true });
});

const properties = {
  job: 'nightly',
  stream: 'members',
  run_id: 'run-1',
  at: Date.UTC(2026, 6, 1, 12),
  sequence: 3,
  day_sequence: 1,
};

/** The files of some rows. @param columns SQL types by name @param rows SQL of lists of values */
async function made(options: object, columns: Readonly<Record<string, string>>, rows: readonly string[], where = '') {
  const names = Object.keys(columns);
  const values = names.map((name, at) => `c${at}::${columns[name]} AS c${at}`);
  const query = `SELECT ${values.join(', ')}, nr FROM (VALUES ${rows.map((row, at) => `(${at}, ${row})`).join(', ')}) AS t(nr, ${names.map((_, at) => `c${at}`).join(', ')}) ${where}`;
  const parsed = z.parse(map(exportOptions), { path: folder, file: 'list.csv', ...options });
  const { files, holdsNul } = await new FileMaker(parsed, {
    ...{ query, order: 'nr', properties, rows: rows.length, folder, signal: new AbortController().signal },
    columns: names.map((name) => ({
      name,
      type: parseColumnType(columns[name] as string),
      duckdbType: columns[name] as string,
    })),
    run: (sql) => session.number(sql),
  }).make();
  const read = files.map(async (file) => ({ ...file, content: await readFile(join(folder, file.local)) }));
  return Object.assign(await Promise.all(read), { holdsNul });
}

async function textOf(options: object, columns: Readonly<Record<string, string>>, rows: readonly string[]) {
  return String((await made(options, columns, rows))[0]?.content);
}

/** What Python's csv reads of a file. */
function readByPython(content: Buffer, delimiter: string): string[][] {
  const program = `import csv, io, json, sys
text = sys.stdin.buffer.read().decode('utf-8-sig')
print(json.dumps(list(csv.reader(io.StringIO(text, newline=''), delimiter=sys.argv[1]))))`;
  return JSON.parse(String(execFileSync('python3', ['-c', program, delimiter], { input: content }))) as string[][];
}

describe('the text of a file', () => {
  it.each([
    ['all', 'lf'],
    ['needed', 'crlf'],
  ])('gives each value back to Python, quote %s, line end %s', async (quote, line_end) => {
    const values = [
      'lone\rCR',
      'line\nfeed',
      'both\r\n',
      'a "quote"',
      'semi;colon',
      '=1+1',
      '-5',
      '\ufeffmark',
      '',
      '007',
      ' x ',
    ];
    const rows = values.map((value) => `'${value}', -5, NULL`);
    const options = { csv: { delimiter: ';', quote, line_end, bom: true } };
    const [file] = await made(options, { '=id': 'VARCHAR', n: 'BIGINT', none: 'VARCHAR' }, rows);
    const content = file?.content as Buffer;
    expect(content.subarray(0, 3).toString('hex')).toBe('efbbbf');
    expect(content.indexOf('\ufeff', 3)).toBeGreaterThan(3);
    expect(readByPython(content, ';')).toEqual([['=id', 'n', 'none'], ...values.map((value) => [value, '-5', ''])]);
    expect(content.toString().endsWith(line_end === 'crlf' ? '\r\n' : '\n')).toBe(true);
  });

  it('writes NULL differently from an empty text', async () => {
    const columns = { a: 'VARCHAR', b: 'VARCHAR' };
    expect(await textOf({}, columns, ["'', NULL"])).toBe('a,b\n"",\n');
    expect(await textOf({ csv: { null: 'NULL' } }, columns, ["'NULL', NULL"])).toBe('a,b\n"NULL",NULL\n');
  });

  it.each(['all', 'needed'])(
    'writes a NULL that is alone in its line so that readers see a row, quote %s',
    async (quote) => {
      const [file] = await made({ csv: { quote } }, { a: 'VARCHAR' }, ['NULL', "'x'", "''"]);
      expect(readByPython(file?.content as Buffer, ',')).toEqual([['a'], [''], ['x'], ['']]);
    },
  );

  it('refuses a name above the rows that needs quotes, with quote none', async () => {
    const csv = { quote: 'none' };
    for (const name of ['a,b', 'a"b', 'a\nb'])
      await expect(made({ csv }, { [name]: 'VARCHAR' }, ["'x'"])).rejects.toThrow(
        'needs quotes as the name of a column',
      );
    expect(await textOf({ csv: { ...csv, header: false } }, { 'a,b': 'VARCHAR' }, ["'x'"])).toBe('x\n');
    expect(await textOf({}, { '#id': 'VARCHAR' }, ["'x'"])).toBe('"#id"\nx\n');
  });

  it('writes numbers with plain digits', async () => {
    const doubles = [
      '1e20',
      '-1.5e-7',
      '0.1',
      '1e15',
      '1.7976931348623157e308',
      '5e-324',
      '-1.2345678901234567e19',
      '0.0',
    ];
    const text = await textOf({ csv: { header: false } }, { d: 'DOUBLE' }, doubles);
    const lines = text.trimEnd().split('\n');
    expect(lines.map(Number)).toEqual(doubles.map(Number));
    expect(lines.filter((line) => /e/i.test(line))).toEqual([]);
    expect(lines.slice(0, 3)).toEqual(['100000000000000000000', '-0.00000015', '0.1']);
    expect(await textOf({ csv: { header: false } }, { d: 'HUGEINT' }, ['99999999999999999999999999999999999999'])).toBe(
      '99999999999999999999999999999999999999\n',
    );
  });

  it('writes dates and times by a pattern, in the time zone', async () => {
    const columns = { d: 'DATE', t: 'TIMESTAMP WITH TIME ZONE' };
    const rows = ["'2026-07-01', '2026-07-01 22:30:00Z'"];
    const csv = { header: false };
    expect(await textOf({ csv }, columns, rows)).toBe('2026-07-01,2026-07-01T22:30:00Z\n');
    expect(await textOf({ csv, time_zone: 'Europe/Berlin' }, columns, rows)).toBe(
      '2026-07-01,2026-07-02T00:30:00+02:00\n',
    );
    expect(await textOf({ csv, time_zone: 'America/St_Johns' }, columns, rows)).toBe(
      '2026-07-01,2026-07-01T20:00:00-02:30\n',
    );
    expect(
      await textOf(
        { csv: { ...csv, date: '%d.%m.%Y', timestamp: '%d.%m.%Y %H:%M' }, time_zone: 'America/New_York' },
        columns,
        rows,
      ),
    ).toBe('01.07.2026,01.07.2026 18:30\n');
    expect(
      await textOf({ csv, time_zone: 'UTC' }, { t: 'TIMESTAMP WITH TIME ZONE' }, ["'2026-07-01 22:30:00.120Z'"]),
    ).toBe('2026-07-01T22:30:00.12Z\n');
  });

  it.each([
    ['latin1', 'Größe é', '4772f6df6520e9'],
    ['windows-1252', 'Größe €', '4772f6df652080'],
    ['utf-16le', 'é€', 'e900ac20'],
  ])('writes %s', async (encoding, value, hex) => {
    const [file] = await made({ csv: { encoding, header: false } }, { a: 'VARCHAR' }, [`'${value}'`]);
    expect(file?.content.toString('hex').startsWith(hex)).toBe(true);
  });

  it('frames rows with first and last line, and escapes formulas of texts and names only', async () => {
    const csv = {
      first_line: 'HDR;{{ stream }};{{ rows }}',
      last_line: 'TRL;{{ rows }}',
      formulas: 'escape',
      delimiter: ';',
    };
    const text = await textOf({ csv }, { '=a': 'VARCHAR', n: 'BIGINT' }, ["'=1+1', -5", "'x', 1"]);
    expect(text).toBe("HDR;members;2\n'=a;n\n'=1+1;-5\nx;1\nTRL;2\n");
  });

  it('writes lists of JSON and lines of JSON, and an empty list', async () => {
    const columns = { 'E-Mail': 'VARCHAR', d: 'DOUBLE', l: 'BIGINT[]' };
    const rows = ["'a', 0.5, [1, 2]", "'b\n', NULL, []"];
    const json = JSON.parse(await textOf({ format: 'json' }, columns, rows));
    expect(json).toEqual([
      { 'E-Mail': 'a', d: 0.5, l: [1, 2] },
      { 'E-Mail': 'b\n', d: null, l: [] },
    ]);
    const lines = (await textOf({ format: 'jsonl' }, columns, rows)).trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual(json);
    expect(JSON.parse(await textOf({ format: 'json' }, { a: 'VARCHAR' }, ['NULL']))).toEqual([{ a: null }]);
  });

  it('packs: gzip that gunzip reads, zip that Python reads', async () => {
    const [gzip] = await made({ compress: 'gzip' }, { a: 'VARCHAR' }, ["'x'"]);
    expect([gzip?.name, String(gunzipSync(gzip?.content as Buffer))]).toEqual(['list.csv.gz', 'a\nx\n']);
    const [zip] = await made({ compress: 'zip' }, { a: 'VARCHAR' }, ["'x'"]);
    const program = `import sys, zipfile
z = zipfile.ZipFile(sys.argv[1]); print(z.namelist(), z.read('list.csv'), z.testzip())`;
    const read = execFileSync('python3', ['-c', program, join(folder, zip?.local ?? '')]);
    expect([zip?.name, String(read)]).toEqual(['list.csv.zip', "['list.csv'] b'a\\nx\\n' None\n"]);
  });

  const dialects: readonly object[] = [
    ...(['all', 'needed', 'none'] as const).flatMap((quote) =>
      ['lf', 'crlf'].flatMap((line_end) => [true, false].map((header) => ({ csv: { quote, line_end, header } }))),
    ),
    { csv: { bom: true, null: 'NULL', line_end: 'crlf' } },
    ...[{ format: 'tsv' }, { format: 'jsonl' }, { format: 'json' }],
  ];
  it.each(dialects)('has the same bytes and hashes packed or not, of no row, one and many: %j', async (options) => {
    const columns = { id: 'VARCHAR', 'é;': 'VARCHAR' };
    for (const count of [0, 1, 3000]) {
      const rows = Array.from({ length: Math.max(count, 1) }, (_, at) => `'${at}', ${at % 3 === 0 ? 'NULL' : "''"}`);
      const limit = count === 0 ? 'WHERE false' : '';
      const [plain] = await made(options, columns, rows, limit);
      const [packed] = await made({ ...options, compress: 'gzip' }, columns, rows, limit);
      expect(plain?.content.equals(gunzipSync(packed?.content as Buffer))).toBe(true);
      const content = plain?.content ?? Buffer.of();
      const sha256 = createHash('sha256').update(content).digest('hex');
      expect(plain).toMatchObject({
        ...{ rows: count, bytes: content.length, sha256 },
        clear_sha256: packed?.clear_sha256,
      });
      expect(packed?.clear_sha256).toBe(sha256);
    }
  });

  it.each([{}, { compress: 'gzip' }])(
    'says whether U+0000 is in a text, which no reader of CSV takes: %j',
    async (options) => {
      const columns = { a: 'VARCHAR' };
      expect((await made(options, columns, ["'x'", "'y' || chr(0)"])).holdsNul).toBe(true);
      expect((await made(options, columns, ["'x'", "'y0'"])).holdsNul).toBe(false);
    },
  );

  it.each(['csv', 'tsv', 'json', 'jsonl'])('lists numbers and times of %s that are not finite', async (format) => {
    const options = z.parse(map(exportOptions), { path: folder, file: 'list', format });
    for (const [type, values] of Object.entries({
      DOUBLE: ["'NaN'", "'-inf'", '1.5'],
      DATE: ["'infinity'", "'-infinity'", "'2026-01-01'"],
    })) {
      const column = { name: 'v', type: parseColumnType(type), duckdbType: type };
      const [found] = mapColumn(options, column as never).limits?.others?.('v') ?? [];
      const rows = values.map((value) => `(${value}::${type})`).join(', ');
      expect(await session.number(`SELECT count(*) FROM (VALUES ${rows}) AS t(v) WHERE ${found?.when}`)).toBe(2);
    }
  });

  it.each([
    { csv: { first_line: 'H'.repeat(300), last_line: 'T{{ rows }};{{ part }}' } },
    { csv: { encoding: 'utf-16le', bom: true } },
    { format: 'json' },
    { format: 'jsonl' },
  ])('has no part of more bytes than it may have, with all around its rows: %j', async (options) => {
    const rows = Array.from({ length: 120 }, (_, at) => `'né ${at} ${'x'.repeat(at % 40)}'`);
    const files = await made({ file: 'p{{ part }}', split: { bytes: 1024 }, ...options }, { a: 'VARCHAR' }, rows);
    expect(files.length).toBeGreaterThan(3);
    expect(Math.max(...files.map(({ bytes }) => bytes))).toBeLessThanOrEqual(1024);
    expect(files.reduce((sum, file) => sum + file.rows, 0)).toBe(120);
  });

  it('splits Parquet by rows, and counts those of each part', async () => {
    const parts = { format: 'parquet', file: 'p{{ part }}', split: { rows: 2 } };
    const files = await made(parts, { a: 'BIGINT' }, ['1', '2', '3']);
    expect(files.map(({ rows }) => rows)).toEqual([2, 1]);
  });

  it('splits where a record ends, not where a line ends inside of quotes', async () => {
    const rows = Array.from({ length: 40 }, (_, at) => `'line ${at}\n${'x'.repeat(60)}'`);
    const files = await made({ file: 'p{{ part }}.csv', split: { bytes: 1024 } }, { a: 'VARCHAR' }, rows);
    expect(files.length).toBeGreaterThan(2);
    const read = files.flatMap(({ content }) => readByPython(content, ',').slice(1));
    expect(read.map(([value]) => value?.split('\n')[0])).toEqual(rows.map((_, at) => `line ${at}`));
    expect(files.reduce((sum, file) => sum + file.rows, 0)).toBe(40);
  });
});

describe('the options of a file', () => {
  const findings = (options: object) =>
    checkExport({ path: './out', file: 'a.csv', ...options }).map(({ message }) => message);

  it('refuses columns in names', () => {
    expect(findings({ file: '{{ email }}.csv' })[0]).toContain('"email" cannot be used here');
    expect(findings({ file: '{{ stream }}.csv' })).toEqual([]);
  });

  it('refuses what contradicts', () => {
    expect(findings({ url: 's3://b' })[0]).toContain('exactly one of `path` and `url`');
    expect(findings({ split: { rows: 1 } })[0]).toContain('{{ part }}');
    expect(findings({ file: '{{ op }}.csv' })[0]).toContain('content: changes');
    expect(findings({ file: "{% if op == 'deleted' %}a{% endif %}.csv" })[0]).toContain('content: changes');
    expect(findings({ file: "{{ stream | append: '-op' }}.csv" })).toEqual([]);
    const split = { bytes: 2048 };
    expect(findings({ file: '{{ part }}.csv', split, csv: { first_line: '{{ rows }}' } })[0]).toContain('not known');
    expect(findings({ file: '{{ part }}.csv', split, csv: { first_line: 'rows' } })).toEqual([]);
    expect(findings({ path: undefined, url: 'sftp://u@h/x', password: 'x' })[0]).toContain('`host_key` is missing');
    const login = { path: undefined, password: 'x', host_key: 'SHA256:x' };
    for (const url of ['sftp://h/x', 'sftp://@h/x', 'sftp://h'])
      expect(findings({ ...login, url })[0]).toContain('needs a user');
    expect(findings({ ...login, url: 'sftp://u@h/x' })).toEqual([]);
    for (const host_key of ['ssh-ed25519 AAAA', ['SHA256:x', 'MD5:aa:bb']])
      expect(findings({ ...login, url: 'sftp://u@h/x', host_key })[0]).toContain('is not a fingerprint');
    expect(findings({ time_zone: 'Mars/Base' })[0]).toContain('not a time zone');
    expect(findings({ format: 'parquet', compress: 'gzip' })[0]).toContain('compressed inside');
  });

  it.each([
    [{ null: ';', delimiter: ';' }, '`null` holds'],
    [{ first_line: 'HDR €', encoding: 'latin1' }, 'latin1 has no letter for "€"'],
    [{ last_line: 'Ω', encoding: 'windows-1252' }, 'windows-1252 has no letter for "Ω"'],
    [{ null: '\u0085', encoding: 'windows-1252' }, 'windows-1252 has no letter'],
    [{ date: '%d–%m', encoding: 'latin1' }, 'latin1 has no letter for "–"'],
  ])('refuses texts that a file cannot have: %j', (csv, problem) => {
    expect(findings({ csv }).join()).toContain(problem.replace('`null` ', ''));
    expect(findings({ csv: { ...csv, null: '', encoding: 'utf-8' } })).toEqual([]);
  });

  it.each([
    ['null', 'a"b', '-'],
    ['null', 'a\nb', 'N/A'],
    ['date', '%Q', '%d.%m.%Y'],
    ['timestamp', '%H:%', '100%% %-d %H:%M:%S.%f'],
  ] as const)('refuses csv.%s of %j', (key, wrong, right) => {
    const csv = unwrap(exportOptions.csv).core as z.ZodObject<Record<typeof key, z.ZodType>>;
    expect(unwrap(csv.shape[key]).info?.check?.(wrong)).toHaveLength(1);
    expect(unwrap(csv.shape[key]).info?.check?.(right)).toEqual([]);
  });

  it.each(['||', '', '"', '\n', '§', '😀'])('refuses the delimiter %j', (delimiter) => {
    const csv = unwrap(exportOptions.csv).core as z.ZodObject<{ delimiter: z.ZodType }>;
    expect(unwrap(csv.shape.delimiter).info?.check?.(delimiter)).toHaveLength(1);
    expect(unwrap(csv.shape.delimiter).info?.check?.('\t')).toEqual([]);
  });
});
