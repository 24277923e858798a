import { describe, expect, it } from 'vitest';
import { clickhouseDialect } from '../../../connectors/clickhouse/dialect.js';
import { columnDefinition, described } from '../../../connectors/clickhouse/types.js';
import type { MergeTask } from '../../../src/sdk/index.js';

const text = { kind: 'text' } as const;
const columns = ['id', 'name'].map((name) => ({ name, type: 'String', kind: text }));

function task(parts: Partial<MergeTask> = {}): MergeTask {
  return {
    table: { name: 'people', columns, key: ['id'], isKeyed: true },
    found: { columns, comment: "o'clock" },
    version: 7,
    target: '`people`',
    stage: 'stage',
    t: 't',
    s: 's',
    write: { type: 'merge', absent: 'keep', isReload: false },
    empty: [],
    clear: [],
    moment: 'now()',
    ...parts,
  };
}

function merged(parts: Partial<MergeTask> = {}, keepsLast = true): string[] {
  const changes = clickhouseDialect(() => keepsLast, 'a1').merge?.(task(parts)) ?? [];
  return changes.map(({ sql }) => sql.replace(/\s+/g, ' ').replace(/_[0-9a-f]{16}_/g, '_'));
}

describe('rows of ClickHouse', () => {
  it('that change are added with the version of the load', () => {
    expect(merged()).toEqual([
      "INSERT INTO `people` (`id`, `name`, `_cdsync_version`, `_cdsync_deleted`) SELECT s.`id`, s.`name`, 7, s._op = 'delete' FROM stage AS s",
    ]);
  });

  it("keep a user's values, but not those that are computed", () => {
    const mine = { name: 'mine', type: 'String' };
    const found = { columns: [...columns, mine, { name: 'up', type: 'String materialized' }], comment: '' };
    expect(merged({ found })).toEqual([
      "INSERT INTO `people` (`id`, `name`, `mine`, `_cdsync_version`, `_cdsync_deleted`) SELECT s.`id`, s.`name`, if(s._op = 'delete', defaultValueOfArgumentType(t.`mine`), t.`mine`), 7, s._op = 'delete' FROM stage AS s LEFT JOIN (SELECT `id`, `mine` FROM `people`) AS t ON t.`id` = s.`id`",
    ]);
  });

  it('that a reload lacks stay, marked and without what must go, and all rows are swapped at once', () => {
    const marked = [...columns, { name: '_deleted_at', type: 'DateTime64', kind: { kind: 'timestamp' } as const }];
    const table = { name: 'people', columns: marked, key: ['id'], isKeyed: true };
    const write = { type: 'merge', absent: 'mark', isReload: true } as const;
    const statements = merged({ table, write, clear: ['name'] });
    expect(statements[0]).toBe("CREATE TABLE `_cdsync_beside_a1_all` AS `people` COMMENT 'o\\'clock'");
    expect(statements[2]).toBe(
      'INSERT INTO `_cdsync_beside_a1_all` (`id`, `_deleted_at`, `_cdsync_version`) SELECT `id`, coalesce(`_deleted_at`, now()), 7 FROM `people` WHERE (`id`) NOT IN (SELECT `id` FROM stage)',
    );
    expect(statements[3]).toBe('EXCHANGE TABLES `people` AND `_cdsync_beside_a1_all`');
  });

  it('that a reload lacks go where deletes are hard', () => {
    expect(merged({ write: { type: 'merge', absent: 'delete', isReload: true } })).toHaveLength(3);
  });

  it('get the engine that a merge needs by a reload', () => {
    expect(merged({ write: { type: 'merge', absent: 'delete', isReload: true } }, false)[0]).toContain(
      'ENGINE = ReplacingMergeTree(_cdsync_version, _cdsync_deleted) ORDER BY (`id`)',
    );
  });
});

describe('a type of ClickHouse', () => {
  const found = (type: string, more = {}) => described({ type, default_kind: '', is_in_sorting_key: 0, ...more });

  it('is spelled without Nullable, which each column is but those of the key', () => {
    expect(found('Nullable(Int64)')).toBe('Int64');
    expect(found('Int64')).toBe('Int64 not nullable');
    expect(found('Int64', { is_in_sorting_key: 1 })).toBe('Int64');
    expect(found('String', { default_kind: 'MATERIALIZED' })).toBe('String materialized');
  });

  it('is written again as it was found', () => {
    for (const type of ['Nullable(Int64)', 'LowCardinality(String)', 'Array(String)'])
      expect(columnDefinition({ name: 'a', type: found(type, { default_kind: 'DEFAULT' }) }, false)).toBe(
        `\`a\` ${type}`,
      );
  });
});
