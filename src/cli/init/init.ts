import { shellWord } from '../../core/command-hints.js';
import { type Command, flag, many, textOption } from '../arguments.js';
import { Output, usageError } from '../output.js';
import { type ServiceArguments, serviceOptions } from '../service-flags.js';
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
      .example('$0 init', 'asks for what it needs')
      .example('$0 init --base-url https://cds.example.com --tenant-id acme --yes', 'asks nothing')
      .epilogue(
        'Secrets come from the environment ($CDS_TOKEN, or $CDS_CLIENT_ID and $CDS_CLIENT_SECRET) and stay there.\n' +
          'Nothing is written unless the service answers and the chosen streams can be read.',
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
  const { refuseExisting, writeConfig } = await import('./file.js');
  if (!args.force) refuseExisting(file);
  const output = new Output(args);
  const env = await environment(args);
  const plan = await askForPlan(args, env, output);
  await writeConfig(file, configText(plan), { env, force: args.force });
  const ending = [
    file === 'cdsync.yaml' ? '' : ` ${shellWord(file)}`,
    args.envFile === undefined ? '' : ` --env-file ${shellWord(args.envFile)}`,
  ].join('');
  const next = [`cdsync check${ending}`, `cdsync run${ending}`];
  const streams = plan.streams.map(({ name, source, of }) => ({ name, source, of }));
  output.document({ status: 'ok', file, job: plan.job, streams, next });
  output.result(`wrote ${file}: the job ${plan.job} reads ${streams.map(({ name }) => name).join(', ')}`);
  output.result(`next: ${next[0]}`);
  output.result(`then: ${next[1]}`);
}
