import fc from 'fast-check';
import { beforeAll, expect, it } from 'vitest';
import type { Argv } from 'yargs';
import yargs from 'yargs';
import { commonOptions } from '../../../src/cli/arguments.js';
import { commands } from '../../../src/cli/commands.js';
import { loadYargs } from '../../../src/cli/yargs.js';

let own: typeof yargs;
beforeAll(async () => {
  own = await loadYargs();
});

const configured = (create: typeof yargs, words: readonly string[], width: number): Argv =>
  create(words).scriptName('cdsync').detectLocale(false).options(commonOptions()).exitProcess(false).wrap(width);

async function helpOf(create: typeof yargs, words: readonly string[], width: number): Promise<string> {
  let text = '';
  const parser = configured(create, words, width).command(commands).strict().help();
  await parser.parseAsync([...words, '--help'], {}, (_error, _args, output) => {
    text = output;
  });
  return text;
}

it('the package has the files that are loaded without its index', () => {
  expect(own).not.toBe(yargs);
});

it.each([40, 100])('every help text of %i columns is the one of the whole package', async (width) => {
  const names = commands.map(({ command }) => String(command).split(' ')[0] as string);
  for (const words of [[], ...names.map((name) => [name]), ['state', 'reset'], ['serve', 'keys']]) {
    const text = await helpOf(own, words, width);
    expect(text).toContain('--json');
    expect(text).toBe(await helpOf(yargs, words, width));
  }
});

it('breaks any text into the lines of the whole package', async () => {
  const words = fc.array(fc.stringMatching(/^[ -~]{0,30}$/), { maxLength: 12 }).map((each) => each.join(' '));
  await fc.assert(
    fc.asyncProperty(words, words, fc.integer({ min: 30, max: 90 }), async (usage, describe, width) => {
      const help = (create: typeof yargs) =>
        configured(create, [], width).usage(`${usage}\n\n${describe}`).option('a', { describe }).getHelp();
      expect(await help(own)).toBe(await help(yargs));
    }),
    { numRuns: 20 },
  );
});
