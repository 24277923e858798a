import type { Argv } from 'yargs';
import { type Command, configPositional, flag, type JobArguments, jobOption } from './arguments.js';
import { type CommonArguments, Output, usageError } from './output.js';
import { writeData } from './standard-streams.js';

interface SchemaArguments extends JobArguments {
  docs: boolean;
  dbt: boolean;
}

/** `cdsync schema`: the JSON Schema of a configuration, its reference page, or dbt's sources of a job, on standard output. */
export const schemaCommand: Command<CommonArguments, SchemaArguments> = {
  builder: (parser) =>
    jobOption(configPositional(parser)).options({
      docs: flag('print the reference page of all options instead, in Markdown'),
      dbt: flag('print the sources.yml of the published tables instead, for dbt'),
    }) as unknown as Argv<SchemaArguments>,
  handler: async (args) => {
    const { docs, dbt, config, job } = args;
    if (docs && dbt) throw usageError('--docs and --dbt are two pages', 'leave one of them out');
    if (!dbt && (config ?? job) !== undefined)
      throw usageError('only --dbt needs a configuration', 'for dbt: cdsync schema cdsync.yaml --dbt');
    writeData(dbt ? await dbtPage(args) : docs ? await referencePage(args) : await jsonSchema());
  },
};

async function referencePage({ json }: CommonArguments): Promise<string> {
  const { configReference } = await import('../config/reference.js');
  const page = configReference({ all: true });
  return json ? `${JSON.stringify({ markdown: page })}\n` : page;
}

async function jsonSchema(): Promise<string> {
  const { configJsonSchema } = await import('../config/json-schema.js');
  return `${JSON.stringify(configJsonSchema(), null, 2)}\n`;
}

async function dbtPage(args: SchemaArguments): Promise<string> {
  const { inLocalJob } = await import('./load.js');
  const { openPublished } = await import('../snapshot/published.js');
  const { dbtSources, dbtYaml, publishedTables } = await import('../output/dbt.js');
  return inLocalJob(args, new Output(args), { need: 'published' }, async ({ config, job, layout }) => {
    const published = await openPublished(layout, config.resources);
    const sources = await publishedTables(published, layout, job.streams)
      .then(dbtSources)
      .finally(() => published.close());
    if (args.json) return `${JSON.stringify(sources)}\n`;
    const head = `# Written by cdsync schema --dbt. Attach the published file as ${job.name} (docs/snapshots.md).\n`;
    return head + (await dbtYaml(sources));
  });
}
