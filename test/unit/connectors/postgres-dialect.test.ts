import { expect, it } from 'vitest';
import { postgresDialect } from '../../../src/sdk/postgres/dialect.js';

it('takes texts that differ in the case of a letter only for different, whatever collation the column has', () => {
  const { differs } = postgresDialect('cdp');
  const exact = 't."name" COLLATE "C" IS DISTINCT FROM s."name" COLLATE "C"';
  expect(differs?.('t."name"', 's."name"', { kind: 'text' })).toBe(exact);
  expect(differs?.('t."n"', 's."n"', { kind: 'int64' })).toBe('t."n" IS DISTINCT FROM s."n"');
  expect(differs?.('t."n"', 's."n"', undefined)).toBe('t."n" IS DISTINCT FROM s."n"');
});
