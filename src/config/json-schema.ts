import { z } from 'zod';
import { type Unwrapped, unwrap } from '../sdk/option.js';
import { fileSchema, jobSchema } from './complete-schema.js';

type JsonSchema = Record<string, unknown>;

const variable = { $ref: '#/$defs/variable' };

/** The JSON Schema (draft 2020-12) of a configuration file, for editors. */
export function configJsonSchema(): JsonSchema {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'cdsync configuration',
    ...optionJsonSchema(fileSchema),
    $defs: {
      job: shape(unwrap(jobSchema)),
      variable: {
        description: 'A variable, \u0024{NAME} or \u0024{NAME:-default}, alone or within text.',
        type: 'string',
        pattern: '\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}',
      },
    },
  };
}

/** The JSON Schema of one option and of all below it; a job is a reference to `$defs`. */
export function optionJsonSchema(schema: z.core.$ZodType): JsonSchema {
  const option = unwrap(schema);
  const isJob = option.core === unwrap(jobSchema).core;
  return { ...about(option), ...(isJob ? { $ref: '#/$defs/job' } : shape(option)) };
}

function about({ info, fallback }: Unwrapped): JsonSchema {
  const described: JsonSchema = {};
  if (info !== undefined) {
    const unit = info.unit === undefined ? '' : ` Unit: ${info.unit}.`;
    const secret = info.secret ? ' A secret: name a variable.' : '';
    described.description = `${info.description}${unit}${secret}`;
    if (info.example !== undefined) described.examples = [info.example];
  }
  if (fallback !== undefined) described.default = fallback;
  return described;
}

function shape(option: Unwrapped): JsonSchema {
  const { core, info } = option;
  if (core instanceof z.ZodObject) return object(core, info?.forms);
  if (core instanceof z.ZodDiscriminatedUnion) return { oneOf: kinds(core, info?.otherKinds) };
  if (core instanceof z.ZodUnion) return { anyOf: core.options.map((form) => optionJsonSchema(form)) };
  if (core instanceof z.ZodRecord) {
    const propertyNames = leaf(core.keyType);
    return { type: 'object', propertyNames, additionalProperties: optionJsonSchema(core.valueType) };
  }
  if (core instanceof z.ZodArray) {
    const emptyAllowed = z.safeParse(core, []).success;
    return { type: 'array', items: optionJsonSchema(core.element), ...(emptyAllowed ? {} : { minItems: 1 }) };
  }
  return scalar(core, option);
}

function kinds(core: z.ZodDiscriminatedUnion, others: string | undefined): JsonSchema[] {
  const known = core.options.map((branch) => optionJsonSchema(branch));
  if (others === undefined) return known;
  const key = core.def.discriminator;
  const tags = core.options.map((branch) => ((unwrap(branch).core as z.ZodObject).shape[key] as z.ZodLiteral).value);
  const other = { type: 'string', description: others, not: { enum: tags } };
  return [...known, { type: 'object', properties: { [key]: other }, required: [key], additionalProperties: true }];
}

function object(core: z.ZodObject, forms: readonly (readonly string[])[] | undefined): JsonSchema {
  const usable = Object.entries(core.shape);
  const required = usable.filter(([, schema]) => unwrap(schema).required).map(([key]) => key);
  return {
    type: 'object',
    properties: Object.fromEntries(usable.map(([key, schema]) => [key, optionJsonSchema(schema)])),
    ...(required.length === 0 ? {} : { required }),
    ...(forms === undefined ? {} : { oneOf: forms.map((keys) => ({ required: keys })) }),
    additionalProperties: false,
  };
}

function scalar(core: z.core.$ZodType, { info }: Unwrapped): JsonSchema {
  const schema = leaf(core);
  // Without quotes, YAML reads 02134 as a number and true as a boolean; cdsync takes both as they are written.
  if (info?.verbatim) return { ...schema, type: ['string', 'number', 'boolean'] };
  const free = Object.keys(schema).every((key) => key === 'type' || key === 'minLength');
  const tag = core instanceof z.ZodLiteral && typeof core.value === 'string' && info === undefined;
  return (free && schema.type === 'string') || tag ? schema : { anyOf: [schema, variable] };
}

function leaf(core: z.core.$ZodType): JsonSchema {
  const { $schema: _, ...schema } = z.toJSONSchema(core, { io: 'input' });
  return schema;
}
