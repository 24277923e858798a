import { z } from 'zod';
import { map, type OptionFacts, option } from '../sdk/option.js';
import { whole } from '../sdk/option-types.js';
import type { OptionsOf, SourceDeclaration } from '../sources/declaration.js';
import type { sources } from '../sources/sources.js';
import { columns, contract, strings, unsuitableRules } from './column-options.js';
import { guards } from './guard-options.js';
import { nameRule, streamNameSchema } from './names.js';

const name = option(streamNameSchema, {
  description: 'Name of the stream, and of its tables and its folder of Parquet files.',
  example: 'members',
  allowed: `${nameRule}; not cdsync`,
});

/** Options of the sources that are read in pages. */
const paged = {
  page_size: whole(1, 10_000, {
    description: 'Records to ask for in one page of this stream. Default: `service.page_size`.',
    unit: 'records',
    example: 1000,
  }).optional(),
};

/** Options of every stream. */
const common = { guards, columns, strings, contract };

type Common = OptionsOf<typeof common & { name: typeof name }> & Partial<OptionsOf<typeof paged>>;

type PartOf<D extends SourceDeclaration> = D extends unknown
  ? Common & { readonly source: D['name'] } & OptionsOf<D['options']>
  : never;

/** One stream as the reader gives it: the options of every stream and those of its source, in camelCase. */
export type StreamPart = PartOf<(typeof sources)[number]>;

function branch(source: SourceDeclaration) {
  const facts: OptionFacts = {
    description: source.description,
    check: (stream) => [...(source.check?.(stream) ?? []), ...unsuitableRules(source, stream)],
  };
  const own = { ...source.options, ...(source.pages && paged) };
  return option(map({ name, source: z.literal(source.name), ...own, ...common }), facts);
}

/** One stream of these sources; `source` says which keys it takes. */
export function streamSchemaWith(known: readonly SourceDeclaration[]) {
  const kinds = z.discriminatedUnion('source', known.map(branch) as never);
  return option(kinds as unknown as z.ZodType<StreamPart>, { description: 'Where the records of a stream come from.' });
}
