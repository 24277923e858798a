import { describe, expect, it } from 'vitest';
import type { ColumnRule } from '../../../../src/config/config.js';
import { tableDefinition } from '../../../../src/delivery/former/delivery-definition.js';

const feed = { definition: { index: 'loyalty_members' }, key: ['id'] };
const table = { mode: 'mirror', columns: new Map(), table: '{stream}', deletes: 'hard' } as const;
const drop = new Map([['email', { drop: true }]]);

describe('the definition of a table', () => {
  it('has the same digits as ever, since destinations keep them', () => {
    expect(tableDefinition(feed, table)).toBe('a4197f54771c5e66501f6243831758a6');
  });

  it('is the same in all modes that have a key, and in whatever order columns are named', () => {
    for (const mode of ['upsert', 'replace'] as const)
      expect(tableDefinition(feed, { ...table, mode })).toBe(tableDefinition(feed, table));
    const rules: [string, ColumnRule][] = [
      ['email', { drop: true }],
      ['name', { drop: false, rename: 'called' }],
    ];
    expect(tableDefinition(feed, { ...table, columns: new Map([...rules].reverse()) })).toBe(
      tableDefinition(feed, { ...table, columns: new Map(rules) }),
    );
  });

  it.each([
    ['the stream is defined in another way', { ...feed, definition: { index: 'others' } }, table],
    ['it has another key', { ...feed, key: ['id', 'tenant'] }, table],
    ['a column is left out', feed, { ...table, columns: drop }],
    ['a column gets another name', feed, { ...table, columns: new Map([['email', { drop: false, rename: 'mail' }]]) }],
    ['it goes to another table', feed, { ...table, table: 'people' }],
    ['each change becomes a row', feed, { ...table, mode: 'append' as const }],
    ['deleted rows stay', feed, { ...table, deletes: 'soft' as const }],
  ])('is another where %s', (_, given, config) => {
    expect(tableDefinition(given, config)).not.toBe(tableDefinition(feed, table));
  });
});
