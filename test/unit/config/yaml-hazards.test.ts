import { describe, expect, test } from 'vitest';
import { head, members, parse, problemsOf, withStream } from './sample.js';

const jobs = 'jobs: { a: { streams: [{ name: s, source: indexes }] } }\n';
const open = '$\u007b';

/** Texts that are no configuration at all, and the lines of their errors. */
const refused: [name: string, text: string, lines: string[]][] = [
  [
    'an empty file',
    '',
    [
      'cdsync.yaml:1:1  the file must hold a map, found nothing; allowed: version, service, storage, resources, jobs, defaults',
    ],
  ],
  [
    'a file of comments',
    '# nothing\n',
    [
      'cdsync.yaml:1:1  the file must hold a map, found nothing; allowed: version, service, storage, resources, jobs, defaults',
    ],
  ],
  [
    'a list',
    '\n- a\n',
    [
      'cdsync.yaml:2:1  the file must hold a map, found a list; allowed: version, service, storage, resources, jobs, defaults',
    ],
  ],
  [
    'text',
    'hello',
    [
      'cdsync.yaml:1:1  the file must hold a map, found text; allowed: version, service, storage, resources, jobs, defaults',
    ],
  ],
  [
    'a number',
    '5',
    [
      'cdsync.yaml:1:1  the file must hold a map, found a number; allowed: version, service, storage, resources, jobs, defaults',
    ],
  ],
  [
    'two documents',
    `${head}---\n${head}`,
    ['cdsync.yaml:7:1  a second document begins here; a configuration is one document'],
  ],
  ['a tab that indents', 'service:\n\tbase_url: x\n', ['cdsync.yaml:2:1  a tab indents here; use spaces']],
  ['a tag', `version: !secret 1\n`, ['cdsync.yaml:1:10  tags such as !name are not read here']],
  ...['!!str x', '!!int 1', '!!binary aGk=', '!!timestamp 2024-01-01', '!!map { a: 1 }', '!!set {}', '! x'].map(
    (value): [string, string, string[]] => [
      `the tag of ${value}`,
      `version: 1\nstorage: ${value}\n`,
      [`cdsync.yaml:2:${10 + value.indexOf(' ') + 1}  tags such as !!str are not read here; quotes make text`],
    ],
  ),
  ['a tag of a key', '!!str version: 1\n', ['cdsync.yaml:1:7  tags such as !!str are not read here; quotes make text']],
  ['an open quote', 'storage: "abc\n', ['cdsync.yaml:1:10  this quote is not closed']],
  [
    'an open bracket',
    'resources: { threads: 1\n',
    ['cdsync.yaml:2:1  the indentation does not fit, or a bracket is not closed'],
  ],
  [
    'a variable without quotes in a flow map',
    `service: { tenant_id: ${open}T} }\n`,
    [`cdsync.yaml:1:24  inside […] and {…} a variable needs quotes: "${open}NAME}"`],
  ],
  [
    'a text that begins with @',
    'storage: @data\n',
    ['cdsync.yaml:1:10  text may not begin with @ or `; put it in quotes'],
  ],
  [
    'an unknown escape',
    'storage: "C:\\data"\n',
    [`cdsync.yaml:1:13  unknown escape in a "…" text; write \\\\ for a backslash, or use '…'`],
  ],
  [
    'two keys on a line',
    'storage: a: b\n',
    ['cdsync.yaml:1:10  a second key on one line; put the value in quotes if it contains ": "'],
  ],
  [
    'a key that is indented by one space less',
    'service:\n  base_url: http://a\n tenant_id: acme\n',
    ['cdsync.yaml:3:1  the indentation does not fit, or a bracket is not closed'],
  ],
  [
    'a tab before one of several keys',
    'service:\n  base_url: http://a\n\ttenant_id: acme\n',
    ['cdsync.yaml:3:1  a tab indents here; use spaces'],
  ],
  [
    'SQL with commas and quotes in braces',
    "jobs: { a: { streams: [{ name: q, source: sql, key: [id], query: select id, b from m where t in ('x','y') }] } }\n",
    ['cdsync.yaml:1:66  inside { }, put the whole SQL in double quotes: "select …"'],
  ],
  [
    'SQL with brackets in braces',
    'jobs:\n  a:\n    streams:\n      - { name: q, source: sql, key: [id], query: select tags[1], id from m }\n',
    ['cdsync.yaml:4:51  inside { }, put the whole SQL in double quotes: "select …"'],
  ],
  ['a key without a space', 'storage: ./data\nversion:1\n', ['cdsync.yaml:2:8  a space is missing after ":"']],
  [
    'a no-break space after a key',
    'storage: ./data\nversion:\u00a01\n',
    ['cdsync.yaml:2:9  a no-break space (U+00A0); write a plain one'],
  ],
  [
    'no-break spaces that indent a list of jobs',
    `${head}jobs:\n  a:\n\u00a0\u00a0\u00a0\u00a0streams:\n      - { name: x, source: index_profiles, index: a }\n`,
    ['cdsync.yaml:9:1  a no-break space (U+00A0); write a plain one, or put the text in quotes'],
  ],
  [
    'wide spaces that indent the first key of a map',
    'service:\n\u3000\u3000base_url: http://a\n',
    ['cdsync.yaml:2:1  a wide space (U+3000); write a plain one, or put the text in quotes'],
  ],
  [
    'printed quotation marks around a variable',
    'service: { base_url: \u201c${A}\u201d }\n',
    ['cdsync.yaml:1:22  a printed quotation mark (U+201C); write " or \''],
  ],
  [
    'printed quotation marks around a text',
    'storage: \u201edata\u201c\n',
    ['cdsync.yaml:1:10  a printed quotation mark (U+201E); write " or \', or put the text in quotes'],
  ],
  ['too many levels', '['.repeat(100_000), ['cdsync.yaml:1:65  nested deeper than 64 levels']],
  ['too many levels of a list', '- '.repeat(10_000), ['cdsync.yaml:1:129  nested deeper than 64 levels']],
  [
    'a very long file',
    '#'.repeat(2 ** 20 + 1),
    ['cdsync.yaml:1:1  the file is longer than 1 MiB; is it a configuration?'],
  ],
];

test.each(refused)('%s is refused', (_, text, lines) => {
  expect(problemsOf(text)).toEqual(lines);
});

describe('what editors leave behind', () => {
  const text = withStream(...members, 'page_size: x');
  const line =
    'cdsync.yaml:13:20  jobs.a.streams[0].page_size: must be a whole number from 1 to 10000, found "x", which is text';

  test('a byte order mark moves nothing', () => {
    expect(parse(`\uFEFF${head}${jobs}`).version).toBe(1);
    expect(problemsOf(`\uFEFFbad: 1\n${head}${jobs}`)[0]).toMatch(/^cdsync\.yaml:1:1 {2}bad/);
    expect(problemsOf(`\uFEFF${text}`)).toEqual([line]);
  });

  test('lines that end in CRLF are lines', () => {
    expect(problemsOf(text.replaceAll('\n', '\r\n'))).toEqual([line]);
    expect(parse(`${head}${jobs}`.replaceAll('\n', '\r\n')).storage).toBe('/srv/sync/data');
  });
});

test('JSON is read, indented with tabs too', () => {
  const text = JSON.stringify(
    {
      service: { base_url: 'http://localhost', tenant_id: 'acme', auth: { token_file: 't' } },
      jobs: { a: { streams: [{ name: 's', source: 'index_profiles', index: 'i', filter: { zip: '02134' } }] } },
    },
    undefined,
    '\t',
  );
  expect(parse(text).jobs[0]?.streams[0]).toMatchObject({ filter: { zip: '02134' } });
  expect(problemsOf(text.replace('"name": "s"', '"name": 5'))).toEqual([
    expect.stringMatching(/^cdsync\.yaml:13:14 {2}jobs\.a\.streams\[0\]\.name: must be 1 to 48/),
  ]);
});

describe('anchors, aliases and merge keys', () => {
  const merged = `${head}jobs:
  a:
    streams:
      - &base { name: s, source: index_profiles, index: i, filter: &gold { tier: gold }, page_size: 100 }
      - { <<: *base, name: t, page_size: 200 }
      - name: u
        <<: [{ index: j }, *base]
        filter: *gold
`;

  test('insert their values; a key beside a merge key wins, then the first merged one', () => {
    expect(parse(merged).jobs[0]?.streams).toMatchObject([
      { name: 's', index: 'i', pageSize: 100 },
      { name: 't', index: 'i', pageSize: 200, filter: { tier: 'gold' } },
      { name: 'u', index: 'j', pageSize: 100, filter: { tier: 'gold' } },
    ]);
  });

  test('a problem in an anchor is shown in its place, for each use', () => {
    expect(problemsOf(merged.replace('tier: gold', 'tier: ~'))).toEqual([
      expect.stringMatching(/^cdsync\.yaml:10:82 {2}jobs\.a\.streams\[0\]\.filter\.tier: /),
      expect.stringMatching(/^cdsync\.yaml:10:82 {2}jobs\.a\.streams\[1\]\.filter\.tier: /),
      expect.stringMatching(/^cdsync\.yaml:10:82 {2}jobs\.a\.streams\[2\]\.filter\.tier: /),
    ]);
  });

  test('an alias of the wrong kind is shown where it is used', () => {
    expect(problemsOf(`${head}resources: { threads: &n 2, memory_mb: 500 }\ndefaults: *n\n${jobs}`)).toEqual([
      expect.stringMatching(/^cdsync\.yaml:8:11 {2}defaults: must be a map, found a number; allowed: /),
    ]);
  });

  test('an alias without an anchor is refused', () => {
    expect(problemsOf(`${head}resources: *nothing\n${jobs}`)).toEqual([
      'cdsync.yaml:7:12  resources: no anchor of this name precedes the alias',
    ]);
  });

  test('a merge key takes maps only', () => {
    expect(problemsOf(`${head}resources: { <<: 5 }\n${jobs}`)).toEqual([
      'cdsync.yaml:7:18  resources["<<"]: a merge key (<<) takes an alias of a map, or a list of such',
    ]);
  });

  test('a map that holds itself ends', () => {
    expect(problemsOf(`${head}resources: &r { <<: *r }\n${jobs}`)).toEqual([
      'cdsync.yaml:7:21  resources["<<"]: more than 1000 aliases are followed',
    ]);
  });

  test('a bomb of aliases does not go off', () => {
    const levels = Array.from({ length: 30 }, (_, level) => {
      const below = level === 0 ? 'threads: 2' : `<<: [*l${level - 1}, *l${level - 1}, *l${level - 1}]`;
      return `  l${level}: &l${level} { ${below} }\n`;
    });
    const started = performance.now();
    const lines = problemsOf(`${head}x:\n${levels.join('')}resources: { <<: *l29 }\n${jobs}`);
    expect(lines).toEqual([expect.stringMatching(/more than 1000 aliases are followed$/)]);
    expect(performance.now() - started).toBeLessThan(2000);
  });
});

test('too many aliases are one problem, whatever follows from the values that are not read', () => {
  const streams = Array.from({ length: 1500 }, (_, at) => `      - { name: s${at}, source: *x }\n`);
  expect(problemsOf(`${head}defaults: { recognition: &x }\njobs:\n  a:\n    streams:\n${streams.join('')}`)).toEqual([
    expect.stringMatching(
      /^cdsync\.yaml:1011:\d+ {2}jobs\.a\.streams\[1000\]\.source: more than 1000 aliases are followed$/,
    ),
  ]);
});

describe('U+0000', () => {
  const fault = 'holds the character U+0000, which no option may have';

  test.each([
    ['storage', (text: string) => text.replace('./data', '"./da\\0ta"'), 'storage'],
    ['a URL', (text: string) => text.replace('http://127.0.0.1:8787', '"http://local\\0host"'), 'service.base_url'],
    ['a name', (text: string) => text.replace('name: s,', 'name: "s\\0",'), 'jobs.a.streams[0].name'],
    [
      'an open value',
      (text: string) => text.replace('source: indexes', 'source: index_profiles, index: i, filter: { a: "\\0" }'),
      'jobs.a.streams[0].filter.a',
    ],
  ])('in %s is refused', (_, damage, path) => {
    const lines = problemsOf(damage(`${head}${jobs}`));
    expect(lines).toEqual([
      expect.stringMatching(
        new RegExp(`^cdsync\\.yaml:\\d+:\\d+ {2}${path.replace(/[.[\]]/g, '\\$&')}: ${fault.replace('+', '\\+')}$`),
      ),
    ]);
  });

  test('from a variable is refused, and its value not shown', () => {
    const text = `${head}${jobs}`.replace('./data', `${open}PLACE}`);
    expect(problemsOf(text, { PLACE: './secret\0' })).toEqual([`cdsync.yaml:6:10  storage: ${fault}`]);
  });
});

test.each(['client_secret:hunter2', 'client_secrethunter2', 'hunter2'])('%s as a key is not shown', (slip) => {
  const lines = problemsOf(`${head.replace('token_file: ./token', `client_id: a, ${slip}`)}${jobs}`);
  expect(lines).toEqual([
    expect.stringContaining('service.auth.client_secret: missing'),
    expect.stringMatching(
      /^cdsync\.yaml:5:25 {2}service\.auth\["…"\]: (?:unknown key|a space is missing after "client_secret:")/,
    ),
  ]);
  expect(lines.join()).not.toContain('hunter2');
});

describe('SQL in braces without quotes', () => {
  const queries = (rest: string) =>
    parse(
      `${head}jobs: { a: { streams: [{ name: m, source: indexes }, { name: s, source: sql, ${rest} }] } }\n`,
    ).jobs[0]?.streams.map(({ reads }) => reads.query);

  test.each([
    ['key: [id], query: select id, ltv from m where ltv > 1000', 'select id, ltv from m where ltv > 1000'],
    ['query: select id, email, points from m, key: [id]', 'select id, email, points from m'],
    ['query: select id,\n  ltv from m, key: [id]', 'select id, ltv from m'],
    ['query: "select id, ltv from m", key: [id]', 'select id, ltv from m'],
  ])('may have commas: %s', (rest, query) => {
    expect(queries(rest)).toContain(query);
  });

  test('is the only text that continues after a comma: any other stray word is an unknown key', () => {
    expect(problemsOf(`${head}jobs: { a: { streams: [{ name: s, source: indexes, secret }] } }\n`)).toEqual([
      expect.stringContaining('["…"]: unknown key'),
    ]);
  });
});
