import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '..', '..');
const program = join(root, 'dist', 'src', 'cli', 'main.js');

async function help(words: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...words, '--help']);
  return stdout;
}

/** Names of the commands that a help text lists, below its own. */
function commandsOf(text: string, above: readonly string[]): string[] {
  const pattern = new RegExp(`^  cdsync ${[...above, '([a-z]+)'].join(' ')}`, 'gm');
  const list = /^Commands:\n([\s\S]*?)\n\n/m.exec(text)?.[1] ?? '';
  return [...list.matchAll(pattern)].map((match) => [...above, match[1]].join(' '));
}

function optionsOf(text: string): string[] {
  return [...text.matchAll(/^ +(--[a-z-]+)/gm)].map((match) => match[1] as string);
}

/** The section of the page for each command, by name. */
function sectionsOf(page: string): Map<string, string> {
  const sections = page.split(/^## `cdsync /m).slice(1);
  return new Map(
    sections.map((section) => {
      const [heading = ''] = section.split('`');
      const words = heading.split(' ').filter((word) => /^[a-z]+$/.test(word));
      return [words.join(' '), section] as const;
    }),
  );
}

let commands: string[];
let sections: Map<string, string>;
const texts = new Map<string, string>();
beforeAll(async () => {
  const page = await readFile(join(root, 'docs', 'commands.md'), 'utf8');
  sections = sectionsOf(page);
  commands = [];
  const waiting = commandsOf(await help([]), []);
  for (const command of waiting) {
    const text = await help(command.split(' '));
    texts.set(command, text);
    const below = commandsOf(text, command.split(' '));
    // `workflow` alone does nothing; `serve` does.
    if (below.length === 0 || command === 'serve') commands.push(command);
    waiting.push(...below);
  }
});

describe('docs/commands.md', () => {
  it('has a section for each command, and no others', () => {
    expect([...sections.keys()].sort()).toEqual([...commands].sort());
  });

  it('names each option of each command there, and no others', async () => {
    const common = new Set(optionsOf(await help([])));
    for (const [command, section] of sections) {
      const above = command.includes(' ')
        ? new Set(optionsOf(texts.get(command.split(' ')[0] as string) ?? ''))
        : common;
      const real = new Set(optionsOf(texts.get(command) ?? '').filter((option) => !common.has(option)));
      const written = new Set([...section.matchAll(/--[a-z][a-z-]*/g)].map(([option]) => option));
      const inherited = (option: string) => command.includes(' ') && above.has(option);
      const lacking = [...real].filter((option) => !written.has(option) && !inherited(option));
      const invented = [...written].filter((option) => !real.has(option) && !common.has(option) && option !== '--full');
      expect({ command, lacking, invented }).toEqual({ command, lacking: [], invented: [] });
    }
  });
});

/** Runs words that cdsync refuses, in a folder without a configuration: this one may have that of a quickstart. */
async function run(words: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const cwd = await mkdtemp(join(tmpdir(), 'cdsync-words-'));
  try {
    return await promisify(execFile)(process.execPath, [program, ...words], { cwd }).then(
      (ended) => ({ code: 0, ...ended }),
      (error) => error,
    );
  } finally {
    await rm(cwd, { recursive: true });
  }
}

it('for a configuration that is not there, the last line names the commands that write one', async () => {
  const { code, stderr } = await run(['run', 'absent.yaml']);
  expect([code, stderr.trimEnd().split('\n').at(-1)]).toEqual([
    2,
    'write one: cdsync init; or try it without a service of your own: cdsync quickstart',
  ]);
});

it.each([
  ['nonsense', 'there is no command "nonsense" [usage]'],
  ['verfy', 'there is no command "verfy"; did you mean "verify"? [usage]'],
])('a word that is no command (%s) points to the list of commands', async (word, message) => {
  const { code, stderr } = await run([word]);
  expect([code, stderr.split('\n')[0], stderr.trimEnd().split('\n').at(-1)]).toEqual([
    2,
    `error: ${message}`,
    'see: cdsync --help',
  ]);
});

it('help for a word that is no command names the nearest', async () => {
  const { code, stderr } = await run(['help', 'qurey']);
  expect([code, stderr.split('\n')[0]]).toEqual([
    2,
    'error: there is no command "qurey"; did you mean "query"? [usage]',
  ]);
});

const key = 'ada@example.com';
it.each([
  [['run', '--fulll'], 'no such option: --fulll (did you mean --full?)', 'run'],
  [['run', 'a.yaml', '--dry_run=yes', '--ful'], 'no such option: --dry_run, --ful (did you mean --full?)', 'run'],
  [['run', '--client-secret=s3cret'], 'no such option: --client-secret', 'run'],
  [['run', '--fulls', '--', '--s3cret'], 'no such option: --fulls (did you mean --full?)', 'run'],
  [['status', 'a.yaml', key], 'an unexpected argument at the end', 'status'],
  [['verify', 'a.yaml', key, key], '2 unexpected arguments at the end', 'verify'],
  [['run', '--job'], '--job needs a value', 'run'],
  [['workflow', 'start'], 'missing argument: CONFIG_ID', 'workflow start'],
  [['serve', 'keys', 'mint'], 'action must be one of ', 'serve keys'],
  [['workflow', 'begin', 'x'], 'unknown action "begin"; choose start, status or stop', 'workflow'],
  [['run', 'a.yaml', 'extra'], 'unexpected argument: "extra"', 'run'],
  [['run', '--full=maybe'], '--full is a switch and takes no value', 'run'],
  [['run', '--dry-run'], 'no such option here: --dry-run', 'run'],
  [['query', '--limit', '-1', 'select 1'], 'no such option here: --limit', 'query'],
  [['query', 'select 1', 'a.yaml'], 'the configuration file must be first: a.yaml', 'query'],
  [['state'], 'choose: show, reset or remove', 'state'],
  [['rejects', '--stream'], '--stream needs a value', 'rejects'],
  [['diff', 'members', '--limit', 'few'], '--limit must be a whole number from 0, not "few"', 'diff'],
  [['diff', 'members', 'vip'], 'one STREAM at a time', 'diff'],
  [['completion', 'bash', 'zsh'], 'unexpected argument: "zsh"', 'completion'],
  [['serve', '--port', 'abc'], '--port must be an integer from 0 to 65535, not "abc"', 'serve'],
  [['serve', '--port', '99999'], '--port must be an integer from 0 to 65535', 'serve'],
  [['status', '--log-format', 'yaml'], '--log-format, or $CDSYNC_LOG_FORMAT, must be text or json', 'status'],
  [['workflow', 'strat'], 'there is no command "workflow strat"; did you mean "start"?', 'workflow'],
])(
  'wrong arguments (%j) are reported without their values, and the last line names the help of the command',
  async (words, message, command) => {
    const { code, stderr } = await run(words);
    const [first, ...rest] = stderr.trimEnd().split('\n');
    expect([code, first, rest.at(-1)]).toEqual([
      2,
      expect.stringContaining(`error: ${message}`),
      `see: cdsync ${command} --help`,
    ]);
    expect(stderr).not.toMatch(/ada@|s3cret/);
  },
);

it.each([
  [['query', 'a.yaml'], 'there is no SQL to run'],
  [['diff', 'a.yaml'], 'missing argument: STREAM'],
  [['approve', 'a.yaml', '--job', 'nightly'], 'missing argument: RUN'],
  [['forget', 'a.yaml', 'members'], 'missing argument: KEY'],
  [['run', '--to', '2026-11-08'], '--to needs --from'],
])('a configuration alone is not taken for the word that is missing: %j', async (words, message) => {
  const { code, stderr } = await run(words);
  expect([code, stderr.split('\n')[0]]).toEqual([2, `error: ${message} [usage]`]);
});

it('help is given as everywhere: -h, --help, help COMMAND, -v, and with no word at all', async () => {
  const [short, long, named] = await Promise.all([run(['push', '-h']), run(['push', '--help']), run(['help', 'push'])]);
  expect(short).toMatchObject({ code: 0, stdout: long.stdout });
  expect(named).toMatchObject({ code: 0, stdout: long.stdout });
  expect(await run(['help'])).toMatchObject({ code: 0, stdout: expect.stringContaining('cdsync quickstart') });
  expect(await run(['-v'])).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
  const bare = await run([]);
  expect([bare.code, bare.stderr]).toEqual([2, expect.stringContaining('cdsync query <sql..>')]);
  expect((await run(['query', '--help'])).stdout).toContain('cdsync query [CONFIG] SQL');
});
