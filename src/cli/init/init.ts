import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import type { Variables } from '../../config/variables.js';
import { shellWord } from '../../core/command-hints.js';
import { CdsyncError } from '../../core/errors.js';
import { type Command, flag, many, type ServiceArguments, serviceOptions, textOption } from '../arguments.js';
import { Output, usageError } from '../output.js';
import type { InitArguments } from './plan.js';

/** `cdsync init`: tries the service, then writes a first configuration for it. */
export const initCommand: Command<ServiceArguments, InitArguments> = {
  builder: (parser) =>
    serviceOptions(parser)
      .positional('file', { type: 'string', default: 'cdsync.yaml', describe: 'the file to write' })
      .options({
        index: many('index to read, by id or name; may be repeated'),
        segment: many('real-time segment whose members to read, by id; may be repeated'),
        storage: textOption('folder for all data [default: ./data beside the file]'),
        job: textOption('name of the job [default: nightly]'),
        force: flag('overwrite a file that exists'),
        yes: flag('ask nothing: all indexes, and defaults for the rest'),
      })
      .example('$0 init', 'asks for each setting')
      .example('$0 init --base-url https://cds.example.com --tenant-id acme --yes', 'asks nothing')
      .epilogue(
        'Secrets come from the environment ($CDS_TOKEN, or $CDS_CLIENT_ID and $CDS_CLIENT_SECRET) and stay there.\n' +
          'Nothing is written unless the service responds and the chosen streams can be read.',
      ),
  handler: init,
};

async function init(args: InitArguments): Promise<void> {
  const { file } = args;
  if (!/\.ya?ml$/.test(file))
    throw usageError(`${file} must end in .yaml or .yml`, 'for example: cdsync init cdsync.yaml');
  const { environment } = await import('../load.js');
  const { askForPlan } = await import('./plan.js');
  const { configText } = await import('./config.js');
  if (!args.force && existsSync(file)) throw exists(file);
  const output = new Output(args);
  const env = await environment(args);
  const plan = await askForPlan(args, env, output);
  await writeConfig(file, configText(plan), { env, force: args.force });
  const ending = [
    file === 'cdsync.yaml' ? '' : ` ${shellWord(file)}`,
    args.envFile === undefined ? '' : ` --env-file ${shellWord(args.envFile)}`,
  ].join('');
  const next = ['check', 'plan', 'run'].map((command) => `cdsync ${command}${ending}`);
  const streams = plan.streams.map(({ name, source, of }) => ({ name, source, of }));
  output.document({ status: 'ok', file, job: plan.job, streams, next });
  output.result(`wrote ${file}: the job ${plan.job} reads ${streams.map(({ name }) => name).join(', ')}`);
  output.result(`next: ${next[0]}`);
  for (const command of next.slice(1)) output.result(`then: ${command}`);
}

/** Readable for all: the file has no secrets, and a team may share it. */
const mode = 0o644;

function exists(file: string): CdsyncError {
  return usageError(`${file} exists already`, 'name another file, or write over it: --force');
}

function unwritable(cause: NodeJS.ErrnoException, file: string): CdsyncError {
  if (cause.code === 'EEXIST') return exists(file);
  const hint = cause.code === 'ENOENT' ? 'make its folder first' : 'check that this user may write there';
  return new CdsyncError(`${file} cannot be written: ${cause.code ?? 'unknown error'}`, {
    code: 'config_unwritable',
    hint,
    cause,
  });
}

/** Writes a configuration, unless it cannot be read back. @throws {CdsyncError} `config_unwritable`; `usage` if it exists */
async function writeConfig(
  file: string,
  text: string,
  { env, force }: { env: Variables; force: boolean },
): Promise<void> {
  const { parseConfig } = await import('../../config/parse.js');
  parseConfig(text, file, { env });
  await writeFile(file, text, { flag: force ? 'w' : 'wx', mode }).catch((error: NodeJS.ErrnoException) => {
    throw unwritable(error, file);
  });
}
