import fc from 'fast-check';
import { expect, it } from 'vitest';
import { mergeTextFormats } from '../../../src/columns/text-code.js';
import { inferTextFormat } from '../../../src/columns/text-format.js';
import { sqlText } from '../../../src/core/sql.js';
import { inferTextFormats } from '../../../src/snapshot/infer-text-formats.js';
import { almostValues } from '../../fixtures/almost-values.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

const session = await duckdbSession();

it('DuckDB finds the same code for the texts of a column as the scanner', { timeout: 120_000 }, async () => {
  const texts = almostValues.filter((text) => !text.includes('\0'));
  const numbers = fc.oneof(
    fc.integer({ min: -2000, max: 2000 }).map((cents) => String(cents / 100)),
    fc.integer({ min: -2000, max: 2000 }).map((cents) => (cents / 100).toFixed(2)),
    fc.integer().map(String),
    fc.constant(''),
  );
  const columns = fc.array(fc.oneof(fc.array(texts, { maxLength: 3 }), fc.array(numbers, { maxLength: 4 })), {
    minLength: 1,
    maxLength: 20,
  });
  await fc.assert(
    fc.asyncProperty(columns, async (all) => {
      const values = all.map((column) => `[${column.map(sqlText).join(', ')}]::VARCHAR[]`);
      const unnested = values.map((list, index) => `unnest(${list}) AS c${index}`).join(', ');
      const names = all.map((_, index) => `c${index}`);
      const found = await inferTextFormats(session, `(SELECT ${unnested})`, names);
      for (const [index, column] of all.entries()) {
        const code = column.map(inferTextFormat).reduce<string | undefined>(mergeTextFormats, undefined);
        expect([column, found.get(`c${index}`)]).toEqual([column, code]);
      }
    }),
    { numRuns: 100 },
  );
});
