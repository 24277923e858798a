import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { connectors } from '../../../connectors/index.js';
import { schemaCommand } from '../../../src/cli/schema.js';
import { fileSchema } from '../../../src/config/complete-schema.js';
import { configJsonSchema } from '../../../src/config/json-schema.js';
import { loadConfig } from '../../../src/config/load.js';
import { configReference, connectorReference, withOptions } from '../../../src/config/reference.js';
import { unwrap } from '../../../src/sdk/option.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const read = (path: string) => readFileSync(`${root}${path}`, 'utf8');

const regenerate = 'regenerate it: npm run reference';

test('docs/configuration.md agrees with the declarations', () => {
  expect(read('docs/configuration.md') === configReference(), regenerate).toBe(true);
});

test('configs/cdsync.schema.json agrees with the declarations', () => {
  const schema = `${JSON.stringify(configJsonSchema(), null, 2)}\n`;
  expect(read('configs/cdsync.schema.json') === schema, regenerate).toBe(true);
});

describe.each(connectors.map(({ name }) => name))('connectors/%s/README.md', (name) => {
  test('has the options that the connector declares', () => {
    const page = read(`connectors/${name}/README.md`);
    expect(page).toContain('## Options\n\n<!-- options: npm run reference -->\n');
    expect(page === withOptions(page, connectorReference(name)), regenerate).toBe(true);
  });
});

test('each option of each connector is on its page or among those of all connectors', () => {
  const all = configReference({ all: true });
  const common = configReference();
  for (const { name, options } of connectors) {
    const own = connectorReference(name);
    for (const key of Object.keys(options)) {
      const row = `| \`${key}\` |`;
      expect([name, key, all.includes(row), own.includes(row) || common.includes(row)]).toEqual([
        name,
        key,
        true,
        true,
      ]);
    }
  }
});

test('cdsync schema prints them', async () => {
  const write = process.stdout.write;
  const printed: string[] = [];
  process.stdout.write = (text: string | Uint8Array) => printed.push(String(text)) > 0;
  try {
    const common = { json: false, quiet: false, verbose: false, showValues: false, logFormat: 'text' as const };
    for (const docs of [false, true]) await schemaCommand.handler({ ...common, dbt: false, docs, _: [], $0: '' });
  } finally {
    process.stdout.write = write;
  }
  expect(printed).toEqual([read('configs/cdsync.schema.json'), configReference({ all: true })]);
});

describe.each(readdirSync(`${root}configs`).filter((name) => name.endsWith('.yaml')))('configs/%s', (name) => {
  const env = { CDS_CLIENT_ID: 'id', CDS_CLIENT_SECRET: 'hush' };

  test('needs nothing but the credentials, and keeps its data beside configs', async () => {
    const config = await loadConfig(`${root}configs/${name}`, { env });
    expect(config.storage).toBe(`${root}data`);
    expect(config.warnings).toEqual([]);
  });

  test('names the schema for editors', () => {
    expect(read(`configs/${name}`)).toMatch(/^# yaml-language-server: \$schema=\.\/cdsync\.schema\.json\n/);
  });
});

/** Every option of the file with its path. */
function* options(schema: z.core.$ZodType, path: string): Generator<{ path: string; schema: z.core.$ZodType }> {
  const { core } = unwrap(schema);
  yield { path, schema };
  if (core instanceof z.ZodObject)
    for (const [key, part] of Object.entries(core.shape)) yield* options(part, `${path}.${key}`);
  else if (core instanceof z.ZodRecord) yield* options(core.valueType, `${path}.*`);
  else if (core instanceof z.ZodArray) yield* options(core.element, `${path}[]`);
  else if (core instanceof z.ZodUnion) for (const branch of core.options) yield* options(branch, path);
}

const declared = [...options(fileSchema, '')].filter(({ path }) => path !== '' && !/\.(source|connector)$/.test(path));

test.each(declared)('$path is described, and its example and default are right', ({ path, schema }) => {
  const { core, info, fallback } = unwrap(schema);
  expect(info?.description).toMatch(/./);
  if (fallback !== undefined) expect(z.safeParse(schema, fallback).success).toBe(true);
  const { example } = info ?? {};
  const isMap = core instanceof z.ZodObject || core instanceof z.ZodUnion || core instanceof z.ZodArray;
  if (!isMap && !(core instanceof z.ZodRecord)) expect(example, path).toBeDefined();
  if (example !== undefined && !JSON.stringify(example).includes('$\u007b'))
    expect(z.safeParse(schema, example).success).toBe(true);
});

describe('the JSON Schema', () => {
  function* objects(part: unknown): Generator<Record<string, unknown>> {
    if (typeof part !== 'object' || part === null) return;
    const map = part as Record<string, unknown>;
    if (map.type === 'object' && !('oneOf' in map && map.properties === undefined)) yield map;
    // Rules about keys that are declared beside them.
    const isRule = (key: string) =>
      ['if', 'then', 'not', 'allOf'].includes(key) || (/Of$/.test(key) && 'properties' in map);
    for (const [key, value] of Object.entries(map)) if (!isRule(key)) yield* objects(value);
  }

  test('allows no key that is not declared', () => {
    const found = [...objects(configJsonSchema())];
    expect(found.length).toBeGreaterThan(12);
    for (const map of found) expect(map.additionalProperties).not.toBe(undefined);
  });

  test('does not describe keys that are always refused', () => {
    const text = JSON.stringify(configJsonSchema());
    const refused = declared.filter(({ schema }) => unwrap(schema).core instanceof z.ZodNever);
    for (const { schema } of refused) expect(text).not.toContain(unwrap(schema).info?.description);
  });

  test('takes a variable for a value that is not text, and a number for text that is kept as written', () => {
    const { $defs, properties } = configJsonSchema() as {
      $defs: Record<string, never>;
      properties: Record<string, never>;
    };
    expect(properties).toMatchObject({
      version: { anyOf: [{ const: 1 }, { $ref: '#/$defs/variable' }] },
      service: {
        required: ['base_url', 'tenant_id', 'auth'],
        properties: {
          tenant_id: { anyOf: expect.arrayContaining([{ type: 'number' }]) },
          auth: { oneOf: expect.any(Array) },
        },
      },
    });
    expect($defs).toMatchObject({
      job: { properties: { parquet: { properties: { compression: { default: 'zstd' } } } } },
    });
  });
});
