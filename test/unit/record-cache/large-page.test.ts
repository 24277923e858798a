import { randomBytes } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { ColumnSet } from '../../../src/columns/columns.js';
import { RecordHasher, secretBytes } from '../../../src/columns/record-hash.js';
import { RecordScanner } from '../../../src/extract/scan/record-scanner.js';
import { RecordHashTable } from '../../../src/record-cache/hash-table.js';
import { RecordCache } from '../../../src/record-cache/record-cache.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

it('a page with a large value keeps no memory after the next page', async () => {
  const hasher = new RecordHasher(randomBytes(secretBytes));
  const cached = Buffer.from('{"id":"a"}');
  const hash = new Uint32Array(4);
  hasher.write(new DataView(cached.buffer, cached.byteOffset, cached.length), 0, cached.length, hash, 0);
  const table = RecordHashTable.empty(10);
  table.add(hash, 0);
  const cache = new RecordCache(hasher, { table, separator: undefined });
  const scanner = new RecordScanner(new ColumnSet([]), { container: null, key: ['id'], filter: new Map() });
  const scan = (text: string) => {
    const body = Buffer.from(`${cached},{"id":"b","text":"${text}"}`);
    const page = cache.scan(scanner, { body, start: 0, end: body.length }, { isFirst: false, isFiltered: false });
    expect(page.records).toBe(1);
  };
  scan('small');
  collectGarbage();
  const before = process.memoryUsage().arrayBuffers;
  scan('x'.repeat(64_000_000));
  scan('small');
  const added = () => {
    collectGarbage();
    return process.memoryUsage().arrayBuffers - before;
  };
  await expect.poll(added).toBeLessThan(32_000_000);
});
