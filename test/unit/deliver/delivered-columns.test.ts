import { describe, expect, it } from 'vitest';
import postgres from '../../../connectors/postgres/index.js';
import type { ColumnRule } from '../../../src/config/config.js';
import { deliveredColumns, keptColumns } from '../../../src/deliver/delivered-columns.js';
import { ColumnSet } from '../../../src/rows/columns.js';
import type { Feed } from '../../../src/store/feed.js';

const names = ['id', 'email', 'name'];

function feedOf(columns: readonly string[] = names, key: readonly string[] = ['id']): Feed {
  const declared = columns.map((field) => ({ field, type: 'VARCHAR' as const }));
  return {
    version: 1,
    stream: 'members',
    store_id: 'store',
    run_id: 'run-1',
    sequence: 1,
    synced_at: '2026-01-01T00:00:00.000Z',
    rows: 0,
    key: [...key],
    columns: new ColumnSet(declared).store(),
    definition: {},
    snapshot: [],
    changes: [],
    complete_since: 0,
  };
}

const rules = (given: Record<string, Partial<ColumnRule>>) =>
  new Map(Object.entries(given).map(([name, rule]) => [name, { drop: false, ...rule }]));

type Config = Parameters<typeof deliveredColumns>[0]['config'];
function delivered(config: Partial<Config>, feed = feedOf()) {
  const found = deliveredColumns({
    connector: postgres,
    config: { mode: 'mirror', columns: new Map(), deletes: 'hard', ...config },
    feed,
  });
  return { ...found, names: found.columns.map(({ name }) => name) };
}

describe('the columns of a table', () => {
  it('are those of the stream, and the time of each row', () => {
    for (const mode of ['mirror', 'upsert', 'replace'] as const)
      expect(delivered({ mode }).names).toEqual([...names, '_synced_at']);
    expect(delivered({}).key).toEqual(['id']);
  });

  it('include a mark for deleted rows if these stay', () => {
    const { names: found, columns } = delivered({ deletes: 'soft' });
    expect(found).toEqual([...names, '_synced_at', '_deleted_at']);
    expect(columns.at(-1)?.value).toContain("_op = 'delete'");
    // Mode `upsert` deletes nothing.
    expect(delivered({ mode: 'upsert', deletes: 'soft' }).names).not.toContain('_deleted_at');
  });

  it('include in mode append the operation of each row, and have no key', () => {
    const { names: found, key } = delivered({ mode: 'append' });
    expect([found, key]).toEqual([['_op', '_run_id', '_synced_at', ...names], []]);
  });

  it('get the names and types that the destination supports', () => {
    const long = 'x'.repeat(70);
    const { columns, key } = delivered({}, feedOf([long, 'b'], [long]));
    expect(columns[0]).toMatchObject({
      name: expect.stringMatching(/^x{54}_[0-9a-f]{8}$/),
      value: `"${long}"`,
      mapping: { type: 'text' },
    });
    expect(key).toEqual([columns[0]?.name]);
  });
});

describe('rules for columns', () => {
  it('drop columns and rename others, the key too', () => {
    const columns = rules({ email: { drop: true }, id: { rename: 'member' }, name: { rename: 'called' } });
    const { names: found, key, columns: all } = delivered({ columns });
    expect([found, key]).toEqual([['member', 'called', '_synced_at'], ['member']]);
    expect(all[0]?.value).toBe('"id"');
  });

  it('drop all but the named columns and the key', () => {
    expect(keptColumns(feedOf(), rules({ '*': { drop: true }, name: {} })).map(({ as }) => as)).toEqual(['id', 'name']);
  });

  it('cannot drop the key', () => {
    expect(() => keptColumns(feedOf(), rules({ id: { drop: true } }))).toThrow(
      expect.objectContaining({ code: 'destination_columns', message: expect.stringContaining('is part of the key') }),
    );
  });

  it.each([
    ['another column', { name: { rename: 'EMAIL' } }, {}, '"EMAIL"'],
    ["one of cdsync's own", { name: { rename: '_synced_at' } }, {}, '"_synced_at"'],
    ["one of append's own", { name: { rename: '_op' } }, { mode: 'append' }, '"_op"'],
    ['the mark of deleted rows', { name: { rename: '_deleted_at' } }, { deletes: 'soft' }, '"_deleted_at"'],
  ] as const)('cannot give a column the name of %s', (_, given, config, name) => {
    expect(() => delivered({ ...config, columns: rules(given) })).toThrow(
      expect.objectContaining({ code: 'destination_columns', message: expect.stringContaining(name) }),
    );
  });

  it('for columns that the stream does not have, or not yet, change nothing', () => {
    expect(delivered({ columns: rules({ phone: { drop: true }, city: { rename: 'town' } }) }).names).toEqual([
      ...names,
      '_synced_at',
    ]);
  });
});
