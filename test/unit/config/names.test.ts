import { describe, expect, test } from 'vitest';
import { head, members, problemsOf, withStream } from './sample.js';

const job = `jobs:\n  a:\n    streams: [{ name: s, source: indexes }]\n`;

describe('names', () => {
  test.each(['Members', '1st', 'a-b', 'a__b', 'x_as_of', 'x_history', 'x_changes', 'a'.repeat(49), 'cdsync', ''])(
    'a stream cannot be called %j',
    (name) => {
      const text = withStream(...members).replace('name: members', `name: "${name}"`);
      expect(problemsOf(text)).toEqual([
        expect.stringMatching(
          /^cdsync\.yaml:10:15 {2}jobs\.a\.streams\[0\]\.name: (?:must be |invalid name "[^"]+"; try )/,
        ),
      ]);
    },
  );

  test.each([
    ['loyalty-members', 'loyalty_members'],
    ['Members', 'members'],
    ['1st list', 'st_list'],
    ['a__b', 'a_b'],
  ])('of the wrong name %j the message gives a right one', (name, like) => {
    expect(problemsOf(withStream(...members).replace('name: members', `name: ${name}`))).toEqual([
      `cdsync.yaml:10:15  jobs.a.streams[0].name: invalid name "${name}"; try ${like} (a-z, 0-9, _; max 48)`,
    ]);
  });

  test.each(['abc', 'fifteen letters', '"aaaaaaaaaaaaaaaaaaaaaaaa"', '"äöüäöüä"'])(
    'a salt that can be guessed is not missing as well: %s',
    (salt) => {
      expect(problemsOf(withStream(...members, `columns: { email: { hash: true, salt: ${salt} } }`))).toEqual([
        expect.stringContaining('columns.email.salt: must be text of at least 16 bytes, not one character repeated'),
      ]);
    },
  );

  test.each(['"16 bytes of salt"', '"äöüäöüäö"'])('16 bytes are a salt: %s', (salt) => {
    expect(problemsOf(withStream(...members, `columns: { email: { hash: true, salt: ${salt} } }`))).toEqual([]);
  });

  test.each(['$CDS_TOKEN', '"$CDS_TOKEN"', "'Bearer-$TOKEN'", '$token'])(
    'a variable in a secret needs braces: %s',
    (token) => {
      const text = `${head.replace(/token_file: .*(?= })|token_file: .*/, () => `token: ${token}`)}${job}`;
      const [problem, ...others] = problemsOf(text);
      expect(problem).toContain('service.auth.token: a variable needs braces: $\u007bNAME}; write $$ for a dollar');
      expect(problem).not.toMatch(/token$/i);
      expect(others).toEqual([]);
    },
  );

  test.each(['a$$NAME', 'a$b', '12$34', '$$TOKEN'])('a dollar in a secret is no variable: %s', (token) => {
    expect(problemsOf(`${head.replace(/token_file: .*(?= })|token_file: .*/, () => `token: ${token}`)}${job}`)).toEqual(
      [],
    );
  });

  test.each(['a', 'a'.repeat(48), 'as_of', 'history', 'x_history_2', 'b_'])('a stream can be called %j', (name) => {
    expect(problemsOf(withStream(...members).replace('name: members', `name: ${name}`))).toEqual([]);
  });

  test.each(['cdsync', 'temp', 'system', 'main', 'x_previous', 'x_history'])('a job cannot be called %s', (name) => {
    expect(problemsOf(`${head}${job.replace('a:', `${name}:`)}`)).toEqual([
      expect.stringContaining(`jobs.${name}: a key must be`),
    ]);
  });

  test('a job cannot be called A', () => {
    expect(problemsOf(`${head}${job.replace('a:', 'A:')}`)).toEqual([
      expect.stringMatching(/^cdsync\.yaml:8:3 {2}jobs\.A: invalid name "A"; try a /),
    ]);
  });

  test('two streams of one job cannot share a name', () => {
    const text = `${withStream(...members)}      - { name: members, source: indexes }\n`;
    expect(problemsOf(text)).toEqual([
      'cdsync.yaml:13:17  jobs.a.streams[1].name: duplicate name, first used by streams[0]',
    ]);
  });
});
