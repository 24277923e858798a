import { expect, it } from 'vitest';
import { differenceOf } from '../../../src/output/difference.js';

it('a difference needs a published file of this version, and says what publishes one', async () => {
  const published = {
    rows: async (sql: string) => (sql.includes('duckdb_schemas') ? [] : Promise.reject(new Error(sql))),
  };
  const request = { stream: 'members', from: undefined, to: undefined, column: undefined, limit: 1, showValues: false };
  await expect(differenceOf(published, request, async () => [])).rejects.toMatchObject({
    code: 'not_published',
    hint: 'the next run publishes it again: cdsync run',
  });
});
