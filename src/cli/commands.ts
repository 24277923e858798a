import type { CommandModule } from 'yargs';
import type { Command } from './arguments.js';

/** How a command is written whose words yargs cannot name: each takes a configuration file first. */
const usageLines: Readonly<Record<string, string>> = {
  'report [run..]': 'report [CONFIG] [RUN]',
  'diff <stream..>': 'diff [CONFIG] STREAM',
  'forget [stream..]': 'forget [CONFIG] [STREAM] KEY...',
  'approve <run..>': 'approve [CONFIG] RUN',
  'discard <run..>': 'discard [CONFIG] RUN',
  'query <sql..>': 'query [CONFIG] SQL',
  'lookup <collection..>': 'lookup [CONFIG] COLLECTION NAME=VALUE...',
};

/** A command with its help. Its file is loaded only when the command is used: loading is most of the start-up time. */
function command<Before, After>(
  usage: string,
  describe: string,
  load: () => Promise<Command<Before, After>>,
): CommandModule {
  const module: CommandModule<Before, After> = {
    command: usage,
    describe,
    builder: async (parser) => (await load()).builder(parser.usage(`$0 ${usageLines[usage] ?? usage}\n\n${describe}`)),
    handler: async (args) => (await load()).handler(args),
  };
  // Each command has its own options; no type of a list can express that.
  return module as unknown as CommandModule;
}

/** All commands, in the order of the help. */
export const commands: CommandModule[] = [
  command(
    'run [config]',
    'read the streams of a job, publish the changes, and load the destinations',
    async () => (await import('./run.js')).runCommand,
  ),
  command(
    'push [config]',
    'load the published changes into the destinations',
    async () => (await import('./push.js')).pushCommand,
  ),
  command(
    'rejects [config]',
    'list the values that destinations cannot hold',
    async () => (await import('./rejects.js')).rejectsCommand,
  ),
  command(
    'plan [config]',
    'show the requests, time and disk of a run, and its changes, before it runs',
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
    'show the last runs of a job, its snapshot, its destinations, and what can be resumed',
    async () => (await import('./status.js')).statusCommand,
  ),
  command(
    'report [run..]',
    'show or open the HTML report of a run',
    async () => (await import('./report.js')).reportCommand,
  ),
  command(
    'diff <stream..>',
    'show what differs between two snapshots of a stream',
    async () => (await import('./diff.js')).diffCommand,
  ),
  command(
    'forget [stream..]',
    'permanently delete rows by key everywhere, then verify',
    async () => (await import('./forget.js')).forgetCommand,
  ),
  command('state', 'show, reset or remove sync state', async () => (await import('./state.js')).stateCommand),
  command(
    'verify [config]',
    'check stored and published data for damage',
    async () => (await import('./verify.js')).verifyCommand,
  ),
  command(
    'approve <run..>',
    'commit and publish a held stream',
    async () => (await import('./review-held.js')).approveCommand,
  ),
  command(
    'discard <run..>',
    'delete a held stream; the snapshot stays',
    async () => (await import('./review-held.js')).discardCommand,
  ),
  command(
    'query <sql..>',
    'run SQL over the published snapshot of a job',
    async () => (await import('./query.js')).queryCommand,
  ),
  command(
    'lookup <collection..>',
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
    'salt',
    'print a new salt for `hash: true`, to keep in a variable or a file',
    async () => (await import('./salt.js')).saltCommand,
  ),
  command(
    'mcp [config]',
    'serve the published file to a program that speaks the Model Context Protocol, read-only',
    async () => (await import('./mcp.js')).mcpCommand,
  ),
  command(
    'completion [shell]',
    'print a script that makes bash, zsh or fish complete the words of cdsync',
    async () => (await import('./completion.js')).completionCommand,
  ),
];
