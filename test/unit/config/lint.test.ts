import { basename, dirname } from 'node:path';
import { describe, expect, test } from 'vitest';
import { annotation } from '../../../src/cli/check.js';
import { lintConfig } from '../../../src/config/parse.js';
import { ConfigError } from '../../../src/config/problem.js';
import { builtIn } from './sample.js';

const open = '$\u007b';

const text = `service:
  base_url: ${open}URL}
  tenant_id: ${open}TENANT}
  auth: { token_file: "${open}file:./token}" }
jobs:
  nightly:
    streams:
      - { name: members, source: index_profiles, index: "${open}INDEX}", columns: { email: { hash: true, salt: "${open}SALT}" } } }
    destinations:
      - { name: warehouse, connector: postgres, url: "${open}WAREHOUSE}" }
`;

function problemsOf(yaml: string, env: Record<string, string> = {}) {
  try {
    lintConfig(yaml, '/srv/sync/cdsync.yaml', { connectors: builtIn, env, cwd: '/srv/sync' });
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

describe('a configuration without the values of its variables', () => {
  test('is checked as far as it goes, without any other file', () => {
    const { unset } = lintConfig(text, '/srv/sync/cdsync.yaml', { connectors: builtIn, env: {} });
    expect([...unset].sort()).toEqual(['INDEX', 'SALT', 'TENANT', 'URL', 'WAREHOUSE']);
  });

  test.each([
    ['a misspelt key', text.replace('index:', 'indx:'), 2],
    ['a wrong value', text.replace('    streams:', '    strings: maybe\n    streams:'), 1],
    ['a missing key', text.replace('connector: postgres, ', ''), 1],
  ])('%s is still a problem', (_, yaml, count) => {
    expect(problemsOf(yaml)).toHaveLength(count);
  });

  test('the streams that a destination names are checked', () => {
    const destination = (keys: string) => text.replace('connector: postgres,', `connector: postgres, ${keys},`);
    expect(problemsOf(destination('streams: [membrs]'))).toMatchObject([
      { path: 'jobs.nightly.destinations[0].streams[0]', nearest: 'members' },
    ]);
    expect(problemsOf(destination('streams: [members, members]'))).toHaveLength(1);
    const two = destination('table: all').replace(
      '    destinations:',
      '      - { name: vip, source: segments }\n    destinations:',
    );
    expect(problemsOf(two)).toMatchObject([{ path: 'jobs.nightly.destinations[0].table' }]);
  });

  test('a job that the file lacks is an error', () => {
    const lint = () => lintConfig(text, '/srv/sync/cdsync.yaml', { connectors: builtIn, env: {}, job: ['nigthly'] });
    expect(lint).toThrow(expect.objectContaining({ code: 'job_not_found' }));
  });

  test('limits that look like shares are a warning', () => {
    const limited = text.replace('    streams:', '    guards: { max_deleted: 5 }\n    streams:');
    const { warnings } = lintConfig(limited, '/srv/sync/cdsync.yaml', { connectors: builtIn, env: {} });
    expect(warnings).toEqual([expect.stringContaining('5 means 5 rows')]);
  });

  test('the value of a variable that is set is checked', () => {
    expect(problemsOf(text, { URL: 'nowhere' }).map(({ path }) => path)).toEqual(['service.base_url']);
  });

  test('all is checked that a run would check if every variable is set', () => {
    const twice = text.replace(/( {6}- \{ name: warehouse.*\n)/, '$1$1');
    const env = {
      URL: 'http://127.0.0.1:1',
      TENANT: 't',
      INDEX: 'i',
      SALT: 'long enough',
      WAREHOUSE: 'postgres://x/y',
    };
    expect(problemsOf(twice.replace(/auth: .*/, 'auth: { token_file: ./token }'), env).length).toBeGreaterThan(0);
  });
});

test('a mistake is shown by GitHub in its file, also where the step works in another folder', () => {
  const [problem] = problemsOf(text.replace('hash: true', 'hsh: true'));
  const shown = problem && annotation({ ...problem, file: 'cdsync.yaml' }, dirname(process.cwd()));
  expect(shown).toMatch(new RegExp(`^::error file=${basename(process.cwd())}/cdsync\\.yaml,line=`));
  const outside = problem && annotation({ ...problem, file: '../other/cdsync.yaml' });
  expect(outside).toMatch(/^::error file=\.\.\/other\/cdsync\.yaml,/);
});

test('a mistake is shown by GitHub at its line', () => {
  const [problem] = problemsOf(text.replace('nightly:', 'nightly: # 100%').replace('hash: true', 'hsh: true'));
  expect(problem && annotation({ ...problem, file: 'a,b:c.yaml', message: 'so\n100%' })).toBe(
    `::error file=a%2Cb%3Ac.yaml,line=8,col=${problem?.column}::jobs.nightly.streams[0].columns.email.hsh: so%0A100%25; did you mean "hash"?  allowed: drop, hash, normalize, salt, mask, type, rename, track`,
  );
});
