import { notStrictEqual, strictEqual } from 'node:assert';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, extname, join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import type yargs from 'yargs';

type Yargs = typeof yargs;
type Layout = (options: unknown, texts: unknown) => unknown;

/**
 * The parser of the command line. The package's index also loads libraries that measure texts of all scripts, emoji and colours: half of
 * the time that the help takes. The words of cdsync need none of them.
 */
export async function loadYargs(): Promise<Yargs> {
  try {
    return await withoutScripts();
  } catch {
    // Another version, by `overrides`, may keep its files in other folders.
    return (await import('yargs')).default;
  }
}

/** The package without its index. */
async function withoutScripts(): Promise<Yargs> {
  const index = createRequire(import.meta.url).resolve('yargs');
  const require = createRequire(index);
  const load = (path: string) => import(pathToFileURL(path).href);
  const [{ YargsFactory }, { getProcessArgvBin }, { cliui }, { default: Parser }, { default: y18n }] =
    await Promise.all([
      load(join(dirname(index), 'build', 'lib', 'yargs-factory.js')),
      load(join(dirname(index), 'build', 'lib', 'utils', 'process-argv.js')),
      load(join(dirname(require.resolve('cliui')), 'build', 'lib', 'index.js')),
      load(require.resolve('yargs-parser')),
      load(require.resolve('y18n')),
    ]);
  const layout = cliui as Layout;
  // As in the package's `lib/platform-shims/esm.mjs`, without a search for other packages.
  return YargsFactory({
    assert: { notStrictEqual, strictEqual },
    cliui: (options: unknown) => layout(options, { stringWidth: widthOf, stripAnsi: String, wrap: wrapped }),
    findUp: () => undefined,
    getEnv: (name: string) => process.env[name],
    inspect,
    getProcessArgvBin,
    mainFilename: process.cwd(),
    Parser,
    path: { basename, dirname, extname, relative, resolve, join },
    process: {
      argv: () => process.argv,
      cwd: () => process.cwd(),
      emitWarning: (warning: string | Error, type?: string) => process.emitWarning(warning, type),
      execPath: () => process.execPath,
      exit: (code: number) => process.exit(code),
      nextTick: process.nextTick,
      stdColumns: process.stdout.columns ?? null,
    },
    readFileSync,
    readdirSync,
    require,
    stringWidth: widthOf,
    y18n: y18n({ directory: join(dirname(index), 'locales'), updateFiles: false }),
  }) as Yargs;
}

function widthOf(text: string): number {
  return [...text].length;
}

/** The text in lines of at most `width` letters, without blanks at their ends. */
function wrapped(text: string, width: number): string {
  return text
    .split('\n')
    .flatMap((line) => linesOf(line, width))
    .join('\n');
}

function linesOf(line: string, width: number): string[] {
  const lines = [''];
  for (const word of line.split(' ')) {
    const last = (lines.at(-1) as string).trimStart();
    const start = last === '' ? '' : `${last} `;
    if (word === '' || widthOf(start + word) <= width) lines.splice(-1, 1, start + word);
    else if (widthOf(word) <= width) lines.push(word);
    else lines.splice(-1, 1, ...cut(start, word, width));
  }
  return lines.map((line) => line.trimEnd());
}

/** Lines of a word that is longer than a line. It begins behind `start` if it then takes no more lines. */
function cut(start: string, word: string, width: number): string[] {
  const length = widthOf(word);
  const rest = width - widthOf(start);
  const lines = Math.floor((length - 1) / width) < 1 + Math.floor((length - rest - 1) / width) ? [start, ''] : [start];
  for (const letter of word) {
    if (widthOf(lines.at(-1) as string) >= width) lines.push('');
    lines[lines.length - 1] += letter;
  }
  return lines;
}
