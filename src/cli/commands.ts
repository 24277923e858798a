import type { CommandModule } from 'yargs';
import type { Command } from './command.js';

/** A command with its help. Its file is loaded only when the command is used: loading is most of the start-up time. */
function command<Given, Taken>(
  usage: string,
  describe: string,
  load: () => Promise<Command<Given, Taken>>,
): CommandModule {
  const module: CommandModule<Given, Taken> = {
    command: usage,
    describe,
    builder: async (parser) => (await load()).builder(parser),
    handler: async (args) => (await load()).handler(args),
  };
  // Each command has its own options; no type of a list can express that.
  return module as unknown as CommandModule;
}

/** All commands, in the order of the help. */
export const commands: CommandModule[] = [
  command(
    'run [config]',
    'read the streams of a job, publish what changed, and bring the destinations up to date',
    async () => (await import('./run.js')).runCommand,
  ),
  command(
    'push [config]',
    'bring the destinations of a job up to date with what is published',
    async () => (await import('./push.js')).pushCommand,
  ),
  command(
    'plan [config]',
    'show what a run would request, how long it would take, what disk it needs, and what would change',
    async () => (await import('./plan.js')).planCommand,
  ),
  command(
    'init [file]',
    'write a commented configuration, after trying it against the service',
    async () => (await import('./init/init.js')).initCommand,
  ),
  command(
    'discover [config]',
    'list the indexes of the tenant with their attributes, and its segments',
    async () => (await import('./discover.js')).discoverCommand,
  ),
  command(
    'check [config]',
    'check the configuration, the token, and that every stream can be read and every destination loaded',
    async () => (await import('./check.js')).checkCommand,
  ),
  command(
    'status [config]',
    'show the last runs of a job, its snapshot, what its destinations have, and what a run can resume',
    async () => (await import('./status.js')).statusCommand,
  ),
  command(
    'report [words..]',
    'make the page about a run again, and show or open it',
    async () => (await import('./report.js')).reportCommand,
  ),
  command(
    'diff <words..>',
    'show what differs between two snapshots of a stream',
    async () => (await import('./diff.js')).diffCommand,
  ),
  command(
    'forget <words..>',
    'erase rows of a stream from snapshot, history and parts, and prove it',
    async () => (await import('./forget.js')).forgetCommand,
  ),
  command(
    'state',
    'show what a job remembers between runs, or make it forget how far it has read',
    async () => (await import('./state.js')).stateCommand,
  ),
  command(
    'verify [config]',
    'read everything that was kept and published, and compare it',
    async () => (await import('./verify.js')).verifyCommand,
  ),
  command(
    'approve <words..>',
    'commit and publish what a guard has held',
    async () => (await import('./decide.js')).approveCommand,
  ),
  command(
    'discard <words..>',
    'throw away what a guard has held; the snapshot stays',
    async () => (await import('./decide.js')).discardCommand,
  ),
  command(
    'query <words..>',
    'run SQL over the published snapshot of a job',
    async () => (await import('./query.js')).queryCommand,
  ),
  command(
    'lookup <words..>',
    'find real-time profiles by identity keys, such as an email address',
    async () => (await import('./lookup.js')).lookupCommand,
  ),
  command(
    'workflow',
    'start a workflow of the service, show one of its runs, or stop it',
    async () => (await import('./workflow.js')).workflowCommand,
  ),
  command(
    'serve',
    'run a Customer Data Service on this machine, to try and to test against',
    async () => (await import('./serve.js')).serveCommand,
  ),
  command(
    'quickstart [folder]',
    'try cdsync on this machine: a local service, a job, two days of it',
    async () => (await import('./quickstart.js')).quickstartCommand,
  ),
  command(
    'schema [config]',
    'print the JSON Schema of a configuration file, or the sources of a job for dbt',
    async () => (await import('./schema.js')).schemaCommand,
  ),
  command(
    'completion [shell]',
    'print a script that makes bash, zsh or fish complete the words of cdsync',
    async () => (await import('./completion.js')).completionCommand,
  ),
];
