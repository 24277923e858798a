import { describe, expect, test } from 'vitest';
import { expand } from '../../../src/config/variables.js';
import { head, members, parse, problemsOf, withStream } from './sample.js';

const open = '$\u007b';

describe('replacement', () => {
  const cases: [source: string, text: string][] = [
    ['plain', 'plain'],
    [`${open}A}`, 'one'],
    [`x-${open}A}-${open}B}`, 'x-one-two'],
    [`${open}NONE:-fallback}`, 'fallback'],
    [`${open}EMPTY:-fallback}`, 'fallback'],
    [`${open}EMPTY}`, ''],
    [`${open}NONE:-}`, ''],
    [`${open}A:-fallback}`, 'one'],
    [`$$${open}A}`, '$one'],
    [`$${open}A}`, `${open}A}`],
    ['a$b $ 5$', 'a$b $ 5$'],
    ['$$$$', '$$'],
    [`${open}NONE:-$$x:-y}`, '$x:-y'],
    [`${open}DOLLAR}`, `$& ${open}A} $$`],
  ];
  const env = { A: 'one', B: 'two', EMPTY: '', DOLLAR: `$& ${open}A} $$` };

  test.each(cases)('%s becomes %s', (source, text) => {
    expect(expand(source, { env })).toMatchObject({ text, missing: [], faults: [] });
  });

  test('does not take a member that every object has for a variable', () => {
    expect(expand(`${open}constructor}`, { env: {} }).missing).toEqual(['constructor']);
  });

  test.each([`${open}}`, `${open}a-b}`, `${open}1A}`, `${open}A`, `${open}A:-${open}B}}`, `${open}A-x}`])(
    '%s is refused',
    (source) => {
      const lines = problemsOf(withStream(...members, `filter: { tier: '${source}' }`), env);
      expect(lines).toEqual([
        expect.stringMatching(/^cdsync\.yaml:13:25 {2}jobs\.a\.streams\[0\]\.filter\.tier: .*write \$/),
      ]);
    },
  );
});

describe('a value that is one variable', () => {
  const sized = (value: string) => withStream(...members, `page_size: ${value}`, `check_total: "${open}CHECK:-false}"`);
  const pageSize = (text: string, env: Record<string, string>) => {
    const [stream] = parse(text, env).jobs[0]?.streams ?? [];
    return stream !== undefined && 'pageSize' in stream ? stream.pageSize : undefined;
  };

  test('is read again, in quotes or not', () => {
    expect(pageSize(sized(`${open}SIZE}`), { SIZE: '250' })).toBe(250);
    expect(pageSize(sized(`"${open}SIZE}"`), { SIZE: ' 250 ' })).toBe(250);
    expect(pageSize(sized(`${open}SIZE:-0x10}`), {})).toBe(16);
    expect(parse(sized('1'), { CHECK: 'true' }).jobs[0]?.streams[0]).toMatchObject({ checkTotal: true });
    const url = head.replace('http://127.0.0.1:8787', `${open}URL}`);
    expect(parse(url, { URL: '"https://cds.example/"' }, { jobs: false }).service.baseUrl).toBe('https://cds.example');
  });

  test.each(['[1]', '{a: 1}', '&a 1', '!!int 1', '1 # one', '- 1', '"1"', '', 'null', 'one'])(
    'and %j is no number',
    (value) => {
      const [line] = problemsOf(sized(`${open}SIZE}`), { SIZE: value });
      const found = value === '' || value === 'null' ? `nothing in ${open}SIZE}` : `what ${open}SIZE} gives`;
      expect(line).toBe(
        `cdsync.yaml:13:20  jobs.a.streams[0].page_size: must be a whole number from 1 to 10000, found ${found}`,
      );
    },
  );

  test('within other text is text', () => {
    expect(problemsOf(sized(`1${open}SIZE}`), { SIZE: '0' })).toHaveLength(1);
  });

  test('cannot become a map or a list, whatever the variable holds', () => {
    const text = withStream('source: index_profiles', `index: ${open}X}`, `filter: { tier: "${open}X}" }`);
    for (const value of ['{ a: b }', '[a]', 'a: b', '- a', 'x\nversion: 2', '*a', '&a b', '# c', '!!str x']) {
      const [stream] = parse(text, { X: value }).jobs[0]?.streams ?? [];
      expect(stream).toMatchObject({ index: value, filter: { tier: value } });
    }
  });
});

describe('secrets', () => {
  const text = `${head.replace('token_file: ./token', `token: "${open}TOKEN}"`)}`;

  test.each(['1234', 'true', '"quoted"', '~', '0x10'])('%s is kept as it is', (token) => {
    const { auth } = parse(text, { TOKEN: token }, { jobs: false }).service;
    expect(auth.type === 'token' && auth.token.reveal()).toBe(token);
  });

  test('with blanks or line ends are no tokens', () => {
    expect(problemsOf(text, { TOKEN: 'abc\n' }, { jobs: false })).toEqual([
      'cdsync.yaml:5:18  service.auth.token: must be text without spaces and line ends, found text',
    ]);
  });

  test('in the file itself give a warning', () => {
    const { warnings } = parse(head.replace('token_file: ./token', 'token: abcdefgh'), {}, { jobs: false });
    expect(warnings).toEqual([
      `cdsync.yaml:5:18  service.auth.token: plain-text secret in the file; write ${open}NAME} and set the variable`,
    ]);
  });
});

describe('a command needs only the variables of the parts that it uses', () => {
  const text = `${head.replace('acme', `${open}TENANT}`)}defaults:
  resume_within: ${open}WITHIN}
jobs:
  a: { resume_within: 1h, streams: [{ name: s, source: index_profiles, index: "${open}INDEX_A}" }] }
  b: { streams: [{ name: s, source: index_profiles, index: x, page_size: "${open}SIZE_B}" }] }
`;
  const asked = (needs: object, env = {}) => problemsOf(text, env, needs).map((line) => line.split('  ')[1]);

  test('all of them, reported together, if it uses everything', () => {
    expect(asked({})).toEqual([
      'service.tenant_id: the variable TENANT is not set',
      'defaults.resume_within: the variable WITHIN is not set',
      'jobs.a.streams[0].index: the variable INDEX_A is not set',
      'jobs.b.streams[0].page_size: the variable SIZE_B is not set',
    ]);
  });

  test('none of the service for commands that do not talk to it', () => {
    expect(asked({ service: false, jobs: false })).toEqual([]);
  });

  test('with one line more that says how to set them', () => {
    const named = withStream(...members).replace('name: members', `name: ${open}NAME}`);
    expect(() => parse(named, {})).toThrow(
      expect.objectContaining({ hint: 'set it: export NAME=…, or --env-file .env' }),
    );
    const both = named.replace('version: 1', `version: 1\nstorage: ${open}FOLDER}`);
    expect(() => parse(both, {})).toThrow(
      expect.objectContaining({ hint: 'set them: export FOLDER=… NAME=…, or --env-file .env' }),
    );
    const wrong = withStream(...members).replace('name: members', 'nam: members');
    expect(() => parse(wrong, {})).toThrow(expect.objectContaining({ hint: undefined }));
  });

  test('those of one job, and of the defaults only those that the job does not override', () => {
    expect(asked({ job: 'a', service: false })).toEqual(['jobs.a.streams[0].index: the variable INDEX_A is not set']);
    expect(asked({ job: 'b', service: false })).toEqual([
      'defaults.resume_within: the variable WITHIN is not set',
      'jobs.b.streams[0].page_size: the variable SIZE_B is not set',
    ]);
  });

  test('the value of a variable is checked only if it is used', () => {
    expect(asked({ job: 'a', service: false }, { INDEX_A: 'x', SIZE_B: 'many' })).toEqual([]);
    expect(asked({ service: false }, { INDEX_A: 'x', SIZE_B: 'many', WITHIN: '1h' })).toHaveLength(1);
  });

  test('a value without variables is always checked', () => {
    expect(problemsOf(text.replace('index: x', 'indx: x'), {}, { service: false, jobs: false })).toHaveLength(2);
  });

  test('the job summaries name every job and stream without them', () => {
    const config = parse(text, { INDEX_A: 'x', TENANT: 't' }, { job: 'a' });
    expect(config.jobs.map(({ name }) => name)).toEqual(['a']);
    expect(config.jobSummaries).toEqual([
      { name: 'a', streams: [{ name: 's', source: 'index_profiles' }], destinations: [] },
      { name: 'b', streams: [{ name: 's', source: 'index_profiles' }], destinations: [] },
    ]);
  });

  test('but the name of a stream is always needed', () => {
    const named = withStream(...members).replace('name: members', `name: ${open}NAME}`);
    expect(problemsOf(named, {}, { service: false, jobs: false })).toEqual([
      'cdsync.yaml:10:15  jobs.a.streams[0].name: the variable NAME is not set',
    ]);
  });
});
