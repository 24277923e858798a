import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { CdsyncError } from '../core/errors.js';
import type { Keychain, LookupTask } from '../engine/inspect/lookup-profiles.js';
import { type Command, configAndWords, flag, positionals, type ServiceArguments, serviceOptions } from './arguments.js';
import { exitCodeOf, failureDocument, Output, usageError } from './output.js';

interface LookupArguments extends ServiceArguments {
  collection: string[];
  enrich: boolean;
  method: 'post' | 'get';
}

/** `cdsync lookup`: profiles of a collection by their identity keys (specification, sections 4.6 and 4.7). */
export const lookupCommand: Command<ServiceArguments, LookupArguments> = {
  builder: (parser) =>
    serviceOptions(parser)
      .positional('collection', positionals('[configuration file] COLLECTION [key=value..]'))
      .options({
        enrich: flag('ask for enriched attributes too'),
        method: {
          choices: ['post', 'get'] as const,
          default: 'post' as const,
          requiresArg: true,
          describe: 'get puts the keys into the URL, where others may log them',
        },
      })
      .example('$0 lookup col-1 email=ann@example.com', 'one profile; it must have all the keys')
      .example('$0 lookup col-1 < keys.txt', 'many: one per line, as key=value or JSON; one profile per line, or null')
      .epilogue(
        'Without keys, cdsync reads them from standard input, or asks for them on a terminal: that keeps them out of the list of\n' +
          'processes and out of the history of the shell. Exit codes: 0 all were found, 1 some were not or something failed,\n' +
          '2 wrong usage, 4 refused by the service.',
      ),
  handler: lookup,
};

async function* one(keys: Keychain): AsyncGenerator<Keychain> {
  yield keys;
}

interface Questions {
  readonly keys: AsyncIterable<Keychain>;
  /** Every lookup gets a line in the output, even if no profile matches. */
  readonly isList: boolean;
}

/** Where the keys come from: the command line, a person, or standard input. */
async function questions(words: readonly string[]): Promise<Questions> {
  if (words.length > 0) return { keys: one(keysOfWords(words, 'the command line')), isList: false };
  const { hasTerminal, Terminal } = await import('./terminal.js');
  if (!hasTerminal()) return { keys: keysOfStream(process.stdin), isList: true };
  const terminal = new Terminal();
  try {
    const keys = await terminal.ask('keys, as key=value', '', (reply) => keysOfLine(reply, 'the answer'));
    return { keys: one(keys), isList: false };
  } finally {
    terminal.close();
  }
}

function notFound(collection: string, missing: number, asked: number): CdsyncError {
  const who = asked === 1 ? 'no profile has these keys' : `${missing} of ${asked} lookups match no profile`;
  return new CdsyncError(`${who} in collection "${collection}"`, {
    code: 'profile_not_found',
    hint: 'are the names of collection and keys right? Real-time features may not be enabled for this tenant',
  });
}

async function lookup(args: LookupArguments): Promise<void> {
  const { config: file, words } = configAndWords(args.collection);
  const [collection, ...keys] = words;
  if (collection === undefined || collection.includes('=')) {
    throw usageError('missing argument: COLLECTION', 'for example: cdsync lookup col-1 email=ann@example.com');
  }
  const { applyConfigToOutput } = await import('./load.js');
  const { loadService } = await import('./service-from-flags.js');
  const { withExplorer } = await import('../engine/inspect/explorer.js');
  const { engineOptions } = await import('./engine-options.js');
  const { interruption } = await import('./interruption.js');
  const output = new Output(args);
  const { service, ...config } = await loadService({ ...args, config: file });
  applyConfigToOutput({ service, ...config }, output);
  const asked = await questions(keys);
  const stop = interruption(output);
  try {
    const options = engineOptions(stop, output, service);
    await withExplorer(service, options, async ({ client, signal }) => {
      const { enrich, method } = args;
      const task = { client, signal, collection, enrich, method, atOnce: client.concurrency('realtime') };
      await print(task, asked, output);
    });
  } finally {
    stop.release();
  }
}

/** Shows each response as it arrives; with --json, all responses in one document. */
async function print(task: LookupTask, { keys, isList }: Questions, output: Output): Promise<void> {
  const { lookUpProfiles } = await import('../engine/inspect/lookup-profiles.js');
  const profiles: string[] = [];
  let count = 0;
  let missing = 0;
  for await (const profile of lookUpProfiles(task, keys)) {
    count += 1;
    if (profile === null) missing += 1;
    if (output.isDocument) profiles.push(profile ?? 'null');
    else if (profile !== null || isList) output.resultJson(profile ?? 'null');
  }
  if (count === 0)
    throw usageError('there are no keys to look up', 'give key=value, or lines of them on standard input');
  const error = missing === 0 ? undefined : notFound(task.collection, missing, count);
  const { error: reported } = error === undefined ? { error: null } : failureDocument(error);
  const status = error === undefined ? 'ok' : 'failed';
  // The profiles are the service's own text: parsing them would round their numbers.
  output.documentText(`{"status":"${status}","profiles":[${profiles.join(',')}],"error":${JSON.stringify(reported)}}`);
  if (error === undefined) return;
  output.error(error);
  output.last('next: cdsync lookup --help');
  process.exitCode = exitCodeOf(error);
}

const example = 'for example: email=ann@example.com';

/** Keys by name. @throws {CdsyncError} `usage` that names the place and shows no value */
function keychain(pairs: readonly (readonly [name: string, value: unknown])[], where: string): Keychain {
  const keys = new Map<string, string>();
  for (const [name, value] of pairs) {
    if (name === '') throw usageError(`${where}: a key has no name`, example);
    if (typeof value !== 'string') throw usageError(`${where}: the value of a key is not a text`, 'put it into quotes');
    if (value === '') throw usageError(`${where}: a key has no value`, example);
    if (keys.has(name)) throw usageError(`${where}: a key is given twice`, 'give each key once');
    keys.set(name, value);
  }
  if (keys.size === 0) throw usageError(`${where}: there is no key`, example);
  return Object.fromEntries(keys);
}

/** Words of the form `key=value` as the keys of one lookup. @throws {CdsyncError} `usage` */
export function keysOfWords(words: readonly string[], where: string): Keychain {
  const pairs = words.map((word): [string, string] => {
    const at = word.indexOf('=');
    if (at < 0) throw usageError(`${where}: a word is not key=value`, example);
    return [word.slice(0, at), word.slice(at + 1)];
  });
  return keychain(pairs, where);
}

function keysOfJson(line: string, where: string): Keychain {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    // The parser's own message would quote the line.
    throw usageError(`${where}: it is not JSON`, 'one object of keys a line, such as {"email": "ann@example.com"}');
  }
  return keychain(Object.entries(value as object), where);
}

/**
 * One line as the keys of one lookup: a JSON object, or words `key=value` with white space between them. A value may
 * contain spaces.
 * @throws {CdsyncError} `usage`
 */
export function keysOfLine(line: string, where: string): Keychain {
  const text = line.trim();
  return text.startsWith('{') ? keysOfJson(text, where) : keysOfWords(text.split(/(?<!\s)\s+(?=[^\s=]+=)/), where);
}

/** The lookups of an input stream, one per line; empty lines ask for nothing. @throws {CdsyncError} `usage` */
export async function* keysOfStream(input: Readable): AsyncGenerator<Keychain, void> {
  let number = 0;
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    number += 1;
    const text = number === 1 ? line.replace(/^\uFEFF/, '') : line;
    if (text.trim() !== '') yield keysOfLine(text, `line ${number}`);
  }
}
