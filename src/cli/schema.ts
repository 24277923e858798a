import type { Command } from './command.js';
import { writeData } from './standard-streams.js';

interface SchemaArguments {
  docs: boolean;
}

/** `cdsync schema`: the JSON Schema of a configuration, or its reference page, on standard output. */
export const schemaCommand: Command<object, SchemaArguments> = {
  builder: (parser) =>
    parser.option('docs', {
      type: 'boolean',
      default: false,
      describe: 'print the reference page of all options instead, in Markdown',
    }),
  handler: async ({ docs }) => {
    writeData(docs ? await referencePage() : await jsonSchema());
  },
};

async function referencePage(): Promise<string> {
  const { configReference } = await import('../config/reference.js');
  return configReference();
}

async function jsonSchema(): Promise<string> {
  const { configJsonSchema } = await import('../config/json-schema.js');
  return `${JSON.stringify(configJsonSchema(), null, 2)}\n`;
}
