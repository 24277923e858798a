import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Operation } from '../../../src/api/client.js';
import { streamSchemaWith } from '../../../src/config/job-options.js';
import { optionJsonSchema } from '../../../src/config/json-schema.js';
import { choice, verbatim, whole } from '../../../src/sdk/option.js';
import type { StreamState } from '../../../src/snapshot/stream-state.js';
import { type SourceDeclaration, source } from '../../../src/sources/declaration.js';
import type { Source } from '../../../src/sources/source.js';
import { sources } from '../../../src/sources/sources.js';
import { Database, type Session } from '../../../src/storage/duckdb.js';
import { configOf, opened } from './open-stream.js';

let database: Database;
let session: Session;
beforeAll(async () => {
  database = await Database.open({ memoryMb: 256, threads: 1 });
  session = await database.connect();
});
afterAll(() => {
  session.close();
  database.close();
});

interface Recorded {
  readonly stream: object;
  readonly definition: Readonly<Record<string, string>>;
  readonly fingerprint: string;
}

/** What stores of version 0.1.0 have, and the fingerprints of unfinished readings of this version. */
const recorded: readonly Recorded[] = JSON.parse(
  readFileSync(join(import.meta.dirname, 'definitions-0.1.0.json'), 'utf8'),
);
const named = recorded.map((each): [string, Recorded] => [JSON.stringify(each.stream), each]);

describe('The definition of a stream', () => {
  it.each(named)('is for %s what stores of version 0.1.0 have', async (_, { stream, definition, fingerprint }) => {
    const found = await opened(configOf(stream), { database, session });
    expect({ definition: found.definition, fingerprint: found.fingerprint }).toEqual({ definition, fingerprint });
  });

  it('was recorded of every source', () => {
    const seen = new Set(recorded.map(({ stream }) => (stream as { source: string }).source));
    const missing = sources.map(({ name }) => name).filter((name) => !seen.has(name));
    expect(missing, 'add { stream: { source, … } } to definitions-0.1.0.json: the test above prints the rest').toEqual(
      [],
    );
  });
});

/** Any request of a source; undefined where it has none. */
function anyRequest(opened: Source): Operation | undefined {
  const page = { token: null, limit: 1, filter: new Map(), withTotal: false };
  if (opened.kind === 'list') return opened.page(page);
  if (opened.kind === 'keyed') return opened.requests[0]?.operation(page);
  return opened.page({ ...page, window: { from: '2026-01-01T00:00:00.000Z', to: '2026-01-02T00:00:00.000Z' } });
}

describe('Every source', () => {
  it.each(named)('asks within the budget that it names: %s', async (_, { stream }) => {
    const { source: found, config } = await opened(configOf(stream), { database, session });
    expect(found === undefined ? null : anyRequest(found)?.group).toBe(config.reads.group);
    expect(found?.kind === 'windowed').toBe(config.reads.windows !== undefined);
  });

  it.each(sources.map((each): [string, SourceDeclaration] => [each.name, each]))(
    'declares the columns of its key: %s',
    (_, { key, declared, options }) => {
      const columns = Object.keys(declared);
      if ('option' in key) expect(options).toHaveProperty(key.option);
      else expect(columns).toEqual(expect.arrayContaining([...key]));
    },
  );
});

/** A source that cdsync does not have. */
const tags = source({
  name: 'tags',
  description: 'The tags of a shelf.',
  options: {
    shelf: verbatim({ description: 'Id of the shelf.', example: 'sh-1' }),
    color: choice(['red', 'blue'], { description: 'Only tags of this color.', example: 'red' }).optional(),
    patience_ms: whole(0, 1000, { description: 'How long to wait.', unit: 'ms', example: 10 }).prefault(10),
  },
  notDefining: ['patience_ms'],
  group: 'management',
  coverage: 'everything',
  declared: { tag: 'VARCHAR' },
  key: ['tag'],
  pages: { size: 20 },
  open: ({ shelf, color }) => ({
    kind: 'list',
    page: ({ token, limit }) => ({
      group: 'management',
      method: 'GET',
      path: `/shelves/${shelf}/tags`,
      query: Object.entries({ color, token, limit }).flatMap(([name, value]) =>
        value === undefined || value === null ? [] : [[name, String(value)] as const],
      ),
      label: 'GET /shelves/{id}/tags',
    }),
  }),
});

describe('A source that is new', () => {
  const known = [...sources, tags];
  const open = (options: object, previous?: object) =>
    opened(configOf({ source: 'tags', shelf: 'sh-1', ...options }, known), {
      database,
      session,
      previous: previous && ({ definition: previous } as StreamState),
    });

  it('is opened by a run, with its own options and its own size of a page', async () => {
    const { source: found, config } = await open({ color: 'blue' });
    if (found?.kind !== 'list') throw new Error('it is another kind of source');
    expect(found).toMatchObject({ key: ['tag'], identity: { source: 'tags', shelf: 'sh-1', color: 'blue' } });
    expect(config.reads.pageSize).toBe(20);
    expect(found.page({ token: null, limit: 5, filter: new Map(), withTotal: false })).toMatchObject({
      path: '/shelves/sh-1/tags',
      query: [
        ['color', 'blue'],
        ['limit', '5'],
      ],
    });
    expect((await open({ page_size: 7 })).config.reads.pageSize).toBe(7);
  });

  it('is refused where its own option changed, unless the option defines nothing', async () => {
    const before = await open({});
    const refused = { code: 'definition_changed', message: expect.stringMatching(/^its color changed/) };
    await expect(open({ color: 'red' }, before.definition)).rejects.toMatchObject(refused);
    await expect(open({ shelf: 'sh-2' }, before.definition)).rejects.toMatchObject({ code: 'definition_changed' });
    const patient = await open({ patience_ms: 900, page_size: 3 }, before.definition);
    expect(patient.definition).toEqual(before.definition);
    expect(patient.fingerprint).toBe(before.fingerprint);
    expect((await open({ color: 'red' })).fingerprint).not.toBe(before.fingerprint);
  });

  it('has its options in the JSON Schema, beside those of every stream', () => {
    const { oneOf } = optionJsonSchema(streamSchemaWith(known)) as { oneOf: { properties: Record<string, object> }[] };
    const own = oneOf.find(({ properties }) => JSON.stringify(properties.source).includes('tags'));
    expect(own).toMatchObject({ description: 'The tags of a shelf.', required: ['name', 'source', 'shelf'] });
    expect(Object.keys(own?.properties ?? {})).toEqual([
      'name',
      'source',
      'shelf',
      'color',
      'patience_ms',
      'page_size',
      'guards',
      'select',
      'columns',
      'strings',
      'contract',
    ]);
  });

  it('has its options and column rules checked; each problem names its place in the file', () => {
    const problems = (stream: object) => {
      try {
        configOf({ source: 'tags', ...stream }, known);
        return [];
      } catch (error) {
        return (error as { problems: { path: string; message: string }[] }).problems.map(
          ({ path, message }) => `${path}: ${message}`,
        );
      }
    };
    expect(problems({ shelf: 'a', colour: 'red' })).toEqual(['jobs.job.streams[0].colour: unknown key']);
    expect(problems({})).toEqual(['jobs.job.streams[0].shelf: missing']);
    expect(problems({ shelf: 'a', columns: { tag: { drop: true } } })).toEqual([
      'jobs.job.streams[0].columns.tag.drop: the column is the key, which identifies rows',
    ]);
  });
});
