import { execFileSync, spawnSync } from 'node:child_process';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const program = join(import.meta.dirname, '..', '..', 'dist', 'src', 'cli', 'main.js');
const isThere = (shell: string) => spawnSync(shell, ['--version']).error === undefined;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-completion-'));
  await mkdir(join(folder, 'bin'));
  await writeFile(join(folder, 'bin', 'cdsync'), `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`);
  await chmod(join(folder, 'bin', 'cdsync'), 0o755);
  // Unfinished: a variable that is not set, a source that does not exist, no service.
  const text = [
    'jobs:',
    '  nightly:',
    '    streams:',
    '      - { name: members, source: index_prof, index: "${NONE}", filter: { email: ann@example.com } }',
    '      - { name: vip }',
    '    destinations:',
    '      - { name: warehouse }',
    '  "evil\\e[2J": { streams: [{ name: "$(touch bad)" }] }',
    '',
  ].join('\n');
  await writeFile(join(folder, 'cdsync.yaml'), text);
  await writeFile(join(folder, 'notes.txt'), '');
});
afterAll(() => rm(folder, { recursive: true, force: true }));

function run(shell: string, script: string): string {
  const env = { PATH: `${join(folder, 'bin')}:${process.env.PATH}`, HOME: folder };
  return execFileSync(shell, ['-c', script], { cwd: folder, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

describe('the script of cdsync completion', () => {
  /** What bash would put in place of the last of these words. */
  function bash(...words: string[]): string[] {
    const quoted = ['cdsync', ...words].map((word) => `'${word}'`).join(' ');
    const script = `source <(cdsync completion bash)
      compopt() { :; } # bash allows the real one only while it completes
      COMP_WORDS=(${quoted}); COMP_CWORD=${words.length}; _cdsync cdsync; printf '%s\\n' "\${COMPREPLY[@]}"`;
    return run('bash', script).split('\n').slice(0, -1);
  }

  it('completes commands, options, choices, names and configuration files in bash', () => {
    expect(bash('ru')).toEqual(['run']);
    expect(bash('run', '--no-p')).toEqual(['--no-push']);
    expect(bash('query', '--format', 'c')).toEqual(['csv']);
    expect(bash('run', '--job', '')).toEqual(['nightly']);
    expect(bash('run', '--job', '=', 'ni')).toEqual(['nightly']);
    expect(bash('diff', '')).toEqual(expect.arrayContaining(['members', 'vip', 'cdsync.yaml']));
    expect(bash('push', '--destination', '')).toEqual(['warehouse']);
    expect(bash('run', '')).toEqual(['cdsync.yaml', 'bin']);
    expect(run('bash', 'source <(cdsync completion bash); complete -p cdsync')).toMatch(/-F _cdsync cdsync/);
  });

  it.skipIf(!isThere('zsh'))('completes the same in zsh (skipped: zsh is not installed)', () => {
    const script = `autoload -Uz compinit; compinit -u; source <(cdsync completion zsh)
      _describe() { print -l -- "\${(@P)4}" }; _files() { print files }
      PREFIX=--st words=(cdsync run --st) CURRENT=3; _cdsync
      PREFIX= words=(cdsync run --job '') CURRENT=4; _cdsync`;
    const lines = run('zsh', script).split('\n');
    expect(lines).toEqual(expect.arrayContaining([expect.stringMatching(/^--stream:only this/), 'nightly:job']));
  });

  it.skipIf(!isThere('fish'))('completes the same in fish (skipped: fish is not installed)', () => {
    const ask = (line: string) => run('fish', `cdsync completion fish | source; complete -C '${line}'`).split('\n');
    expect(ask('cdsync run --no-p')).toEqual(expect.arrayContaining([expect.stringMatching(/^--no-push\t/)]));
    expect(ask('cdsync run --job ')).toContain('nightly\tjob');
  });

  it('takes the shell of $SHELL, and refuses one that it does not know', () => {
    expect(run('bash', 'SHELL=/usr/bin/fish cdsync completion')).toMatch(/complete -c cdsync/);
    expect(JSON.parse(run('bash', 'cdsync completion fish --json'))).toEqual({
      shell: 'fish',
      script: run('bash', 'cdsync completion fish'),
    });
    const { status, stdout, stderr } = spawnSync(process.execPath, [program, 'completion'], {
      cwd: folder,
      env: { SHELL: '/bin/ksh' },
      encoding: 'utf8',
    });
    expect([status, stdout, stderr.split('\n').slice(0, 2)]).toEqual([
      2,
      '',
      [
        'error: missing argument: bash, zsh or fish [usage]',
        '  for example, in bash: source <(cdsync completion bash)',
      ],
    ]);
    expect(() => run('bash', 'cdsync completion tcsh')).toThrow(/bash.*zsh.*fish/s);
  });

  it('takes nothing but plain names from a configuration', () => {
    const said = ['run --job', 'run --stream', 'diff', 'query', 'forget members'].map((words) =>
      run('bash', `cdsync __complete bash ${words} ''`),
    );
    expect(said.join('')).toMatch(/members/);
    expect(said.join('')).not.toMatch(/ann@example\.com|touch|evil/);
  });
});
