import type { Argv } from 'yargs';
import { CdsyncError } from '../core/errors.js';
import { formatCount, formatCounted } from '../core/quantities.js';
import type { ForgetResult } from '../engine/admin/forget-person.js';
import { type Command, flag, type JobArguments, jobOption, positionals } from './arguments.js';
import { type CommonArguments, Output, usageError } from './output.js';
import { shellWord } from './own-command.js';

function proof({ searched, remains, also_in: others }: ForgetResult): string[] {
  if (others.length > 0) {
    return [
      `not searched: rows of ${others.join(', ')} have the key as well; forget them there too, and the files are searched`,
    ];
  }
  if (searched === 0) return ['no file was searched for it: key and values are parts of longer texts in other rows'];
  if (remains.length === 0) return ['verified: no copy left in any file'];
  const waits = remains.some((file) => file.startsWith('.cdsync/deliveries/'));
  const advice = waits
    ? ['rows that wait for a destination stay until they are delivered: cdsync push, then forget again']
    : [];
  return ['these files still have a trace of it:', ...remains.map((file) => `  ${file}`), ...advice];
}

/** The erased rows and files, for people. */
function forgetLines(result: ForgetResult): string[] {
  const { stream, keys, rows, history } = result;
  const nothing = rows + history === 0 ? [`no row of ${stream} has this key`] : [];
  return [
    `${stream}: ${formatCounted(rows, 'row')} and ${formatCount(history)} of history erased, for ${formatCounted(keys, 'key')}`,
    ...nothing,
    `deleted all earlier Parquet files of ${stream}: they may have contained it`,
    ...proof(result),
    ...result.destinations.map(
      ({ name, remains }) =>
        `destination ${name}: the next delivery erases it (cdsync push)${remains === null ? '' : `; ${remains}`}`,
    ),
    'the next run brings back what the service still has: delete it there first',
  ];
}

interface ForgetArguments extends JobArguments {
  stream: string[];
  evenIfAbsent: boolean;
  yes: boolean;
}

/** Asks whether to continue, if there is someone to ask. */
async function isMeant({ yes }: ForgetArguments, stream: string, keys: number): Promise<boolean> {
  const { hasTerminal, Terminal } = await import('./terminal.js');
  if (yes || !hasTerminal()) return true;
  const terminal = new Terminal();
  try {
    const what = `${keys === 1 ? 'one key' : `${keys} keys`} of ${stream}, and all earlier Parquet files of it`;
    const answer = await terminal.ask(`permanently delete ${what}? yes or no`, 'no', (text) => text.toLowerCase());
    return answer === 'yes' || answer === 'y';
  } finally {
    terminal.close();
  }
}

/** `cdsync forget`: erases a person from everything that a job keeps of a stream. */
export const forgetCommand: Command<CommonArguments, ForgetArguments> = {
  builder: (parser) =>
    jobOption(parser)
      .positional('stream', positionals('[configuration file] stream key...'))
      .option(
        'even-if-absent',
        flag('delete earlier Parquet files, and rows at destinations, although no row here has the key'),
      )
      .option('yes', flag('do not ask on a terminal'))
      .example('$0 forget members p-0001', 'erase one profile')
      .example(`$0 forget vip '["seg-vip","p-0001"]'`, 'a key of several columns is a JSON list')
      .epilogue(
        'Delete the person at the service first: the next run reads what the service still has.\n' +
          'Exit codes: 0 erased, 1 no row has the key and nothing was deleted, or a file still has a trace of it.',
      ) as unknown as Argv<ForgetArguments>,
  handler: async (args) => {
    const hasConfig = /\.(ya?ml|json)$/.test(args.stream[0] ?? '');
    const [stream, ...keys] = hasConfig ? args.stream.slice(1) : args.stream;
    if (stream === undefined || keys.length === 0 || keys.includes(''))
      throw usageError(
        `missing argument: ${stream === undefined ? 'STREAM and KEY' : 'KEY'}`,
        'for example: cdsync forget members p-0001',
      );
    if (!(await isMeant(args, stream, keys.length)))
      throw new CdsyncError('nothing was deleted', {
        code: 'interrupted',
        hint: 'to delete without a question: --yes',
      });
    const { destinationsOf, inJob, loadLocalJobs } = await import('./load.js');
    const { withJobFiles } = await import('../engine/job-files.js');
    const { withStorage } = await import('../engine/open-engine.js');
    const { forget } = await import('../engine/admin/forget-person.js');
    const jobArguments = { ...args, config: hasConfig ? args.stream[0] : undefined };
    const output = new Output(args);
    const { config, job } = await loadLocalJobs(jobArguments, output);
    const destinations = destinationsOf(config, job).filter(({ streams }) => streams.includes(stream));
    const nextAfter = { key_not_found: `compare with its keys: cdsync query ${shellWord(`from ${stream} limit 5`)}` };
    const result = await inJob({ storage: config.storage, job: job.name, nextAfter }, () =>
      withJobFiles({ config, job: job.name, need: 'everything', notice: (line) => output.notice(line) }, (place) => {
        place.bucket?.collectImmediately();
        return withStorage(
          config,
          (engine) => forget(engine, job, { stream, keys, evenIfAbsent: args.evenIfAbsent, destinations }),
          place,
        );
      }),
    );
    output.document(result);
    for (const line of forgetLines(result)) output.advice(line);
    if (result.status === 'ok') return;
    process.exitCode = 1;
    const { nextStep } = await import('./next-step.js');
    output.last(await nextStep({ code: 1, storage: config.storage, job: job.name }));
  },
};
