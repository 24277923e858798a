import { describe, expect, it } from 'vitest';
import { mysqlDialect } from '../../../connectors/mysql/dialect.js';

const [text, integer] = [{ kind: 'text' }, { kind: 'int64' }] as const;
const altered = new Set(['`name`', '`o``clock`']);
const dialect = mysqlDialect({ collation: 'utf8mb4_nopad_bin', foldsTables: false, altered });

describe('a column whose characters or collation a person has changed', () => {
  it.each([
    ['`name`', true],
    ['t.`name`', true],
    ['t.`o``clock`', true],
    ['t.`surname`', false],
    ['`Name`', false],
  ])('%s is compared in the characters of its stage: %s', (column, is) => {
    expect(dialect.canonical(column, text)?.includes(`convert(${column} USING utf8mb4)`)).toBe(is);
    expect(dialect.canonical(column, text)).toMatch(/ COLLATE utf8mb4_nopad_bin$/);
    expect(dialect.canonical(column, integer)).not.toContain('USING utf8mb4');
  });

  it('differs if only the case of a letter does', () => {
    const exact = (alias: string) => `convert(${alias}.\`name\` USING utf8mb4) COLLATE utf8mb4_nopad_bin`;
    expect(dialect.differs?.('t.`name`', 's.`name`', text)).toBe(`NOT (${exact('t')} <=> ${exact('s')})`);
    expect(dialect.differs?.('t.`name`', 's.`name`', integer)).toBe('NOT (t.`name` <=> s.`name`)');
    expect(dialect.differs?.('t.`note`', 's.`note`', text)).toBe('NOT (t.`note` <=> s.`note`)');
  });
});
