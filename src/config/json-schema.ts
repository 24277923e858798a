import { z } from '../core/zod.js';
import { type OptionInfo, type Unwrapped, unwrap, withKeys } from '../sdk/option.js';
import { fileSchema, jobSchema } from './complete-schema.js';

type JsonSchema = Record<string, unknown>;

const variable = { $ref: '#/$defs/variable' };
const reference = String.raw`\$\{(file:[^}]+|[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?)\}`;
/** A text in which a `${…}` is no variable, or with a character that no option may have. */
const noVariable = String.raw`\u0000|(^|[^$])(\$\$)*\$\{(?!${reference.slice(4)})`;
/** A variable as a shell writes it: alone, and within a secret. */
const bareName = String.raw`^\$[A-Z_][A-Z0-9_]*$`;
const bareInSecret = String.raw`(^|[^$])(\$\$)*\$[A-Z_][A-Z0-9_]+(?![A-Za-z0-9_])|^\$[A-Za-z_]\w*$`;
const without = (...patterns: string[]) => ({ type: 'string', not: { type: 'string', pattern: patterns.join('|') } });
const expandable = without(noVariable);
/** Without quotes, YAML reads 02134 as a number and true as a boolean; cdsync takes both as they are written. */
const written = (text: JsonSchema) => ({ anyOf: [text, { type: 'number' }, { type: 'boolean' }] });

/** The JSON Schema (draft 2020-12) of a configuration file, for editors. */
export function configJsonSchema(): JsonSchema {
  const { properties, required, ...file } = optionJsonSchema(fileSchema) as {
    properties: JsonSchema;
    required: string[];
  };
  const streams = withKeys('streams');
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'cdsync configuration',
    ...file,
    properties: { ...properties, jobs: { ...(properties.jobs as JsonSchema), minProperties: 1 } },
    required: [...required, 'jobs'],
    anyOf: [
      { type: 'object', properties: { jobs: { type: 'object', additionalProperties: streams } } },
      { type: 'object', properties: { defaults: streams }, required: ['defaults'] },
    ],
    $defs: {
      job: shape(unwrap(jobSchema)),
      variable: {
        description:
          'A variable, ${NAME} or ${NAME:-default}, or the text of a file, ${file:PATH}, alone or within text.',
        pattern: reference,
        ...expandable,
      },
      text: written({ minLength: 1, ...expandable }),
      scalar: written(expandable),
      expandable,
      value: without(bareName, noVariable),
      secret: without(bareInSecret, noVariable),
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
  if (core instanceof z.ZodObject) return { ...object(core, info), ...info?.editorRules };
  if (core instanceof z.ZodDiscriminatedUnion)
    return { type: 'object', oneOf: kinds(core, info?.otherKinds), ...info?.editorRules };
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
  const key = core.def.discriminator;
  const named = core.options.map((branch) => {
    const schema = optionJsonSchema(branch) as { description: string; properties: Record<string, JsonSchema> };
    // An editor shows the texts at the key itself.
    const tag = { ...schema.properties[key], description: schema.description };
    return { ...schema, properties: { ...schema.properties, [key]: tag } };
  });
  const tags = core.options.map((branch) => ((unwrap(branch).core as z.ZodObject).shape[key] as z.ZodLiteral).value);
  const other = others === undefined ? variable : { type: 'string', description: others, not: { enum: tags } };
  return [...named, { type: 'object', properties: { [key]: other }, required: [key], additionalProperties: true }];
}

function object(core: z.ZodObject, info: OptionInfo | undefined): JsonSchema {
  const usable = Object.entries(core.shape);
  const required = usable.filter(([, schema]) => unwrap(schema).required).map(([key]) => key);
  return {
    type: 'object',
    properties: Object.fromEntries(usable.map(([key, schema]) => [key, optionJsonSchema(schema)])),
    ...(required.length === 0 ? {} : { required }),
    ...(info?.forms === undefined ? {} : { oneOf: info.forms.map((form) => oneForm(form, info.forms ?? [])) }),
    additionalProperties: false,
  };
}

/** All keys of the form, and no key of another. */
function oneForm(form: readonly string[], all: readonly (readonly string[])[]): JsonSchema {
  const others = [...new Set(all.flat())].filter((key) => !form.includes(key));
  return { ...withKeys(...form), not: { anyOf: others.map((key) => withKeys(key)) } };
}

/** Whether the text usually is the value of a variable: then a name without braces is not a literal text. */
function mayBeBare(info: OptionInfo | undefined): boolean {
  return String(info?.example ?? '').startsWith('${');
}

function scalar(core: z.core.$ZodType, { info }: Unwrapped): JsonSchema {
  const schema = leaf(core);
  const tag = core instanceof z.ZodLiteral && typeof core.value === 'string' && info === undefined;
  if (tag) return schema;
  const isFree = schema.type === 'string' && Object.keys(schema).every((key) => key === 'type' || key === 'minLength');
  if (isFree)
    return {
      $ref: `#/$defs/${schema.minLength === undefined ? 'scalar' : 'text'}`,
      ...(mayBeBare(info) ? { not: { type: 'string', pattern: bareName } } : {}),
    };
  // A number of the file is text to cdsync, if the option is.
  const takes = (text: string) => schema.type === 'string' && z.safeParse(core, text).success;
  const numbers = takes('0.5')
    ? [{ type: 'number' }]
    : ['7', '640', '2026'].some(takes)
      ? [{ type: 'integer', minimum: 0 }]
      : [];
  const booleans = takes('true') ? [{ type: 'boolean' }] : [];
  const kind = info?.secret ? 'secret' : mayBeBare(info) ? 'value' : 'expandable';
  const literal = schema.pattern === undefined ? schema : { ...schema, $ref: `#/$defs/${kind}` };
  return { anyOf: [literal, variable, ...numbers, ...booleans] };
}

function leaf(core: z.core.$ZodType): JsonSchema {
  const { $schema: _, ...schema } = z.toJSONSchema(core, { io: 'input' });
  return schema;
}
