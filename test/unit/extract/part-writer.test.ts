import { mkdtemp, readdir, readFile, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ColumnRules } from '../../../src/columns/column-rules.js';
import { ColumnSet } from '../../../src/columns/columns.js';
import type { PartConverter } from '../../../src/extract/convert/converter.js';
import { PartWriter } from '../../../src/extract/part-writer.js';
import { RecordScanner } from '../../../src/extract/scan/record-scanner.js';
import { firstCursor, Journal, noCounters } from '../../../src/storage/journal.js';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-parts-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** A writer of parts, and a function that adds a page of records. */
async function writer(make: PartConverter['make']) {
  const columns = new ColumnSet([]);
  const journal = await Journal.open(folder, undefined);
  const parts = new PartWriter({
    folder,
    stagingFolder: folder,
    key: ['id'],
    compression: 'snappy',
    columns,
    rules: new ColumnRules(new Map()),
    maker: { make },
    journal,
    parts: 0,
    counters: () => noCounters,
  });
  const scanner = new RecordScanner(columns, { container: null, key: ['id'], filter: new Map() });
  const add = (text: string) => {
    const body = Buffer.from(text);
    return parts.add(() => scanner.scan(body, 0, body.length), '*', firstCursor);
  };
  return { parts, journal, add };
}

/** The files of the test that this process has open. */
async function filesOpen(): Promise<string[]> {
  const open = await Promise.all(
    (await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')),
  );
  return open.filter((path) => path.startsWith(folder));
}

describe('parts', () => {
  it('are made of rejected records too before these fill the memory', async () => {
    const { parts, journal, add } = await writer(async () => Promise.reject(new Error('there is nothing to convert')));
    const large = JSON.stringify({ id: null, text: 'x'.repeat(1_000_000) });
    for (let page = 0; page < 30; page += 1) await add(large);
    const files = async () => (await readdir(folder)).filter((name) => name.includes('rejects')).length;
    await expect.poll(files).toBeGreaterThanOrEqual(1);
    await parts.flush();
    expect(await files()).toBe(3);
    await parts.close();
    await journal.close();
  });

  it.runIf(process.platform === 'linux')('leave no file open when their conversion fails', async () => {
    const { parts, journal, add } = await writer(async () => Promise.reject(new Error('no conversion today')));
    await add('{"id":"a"}');
    await expect(parts.flush()).rejects.toThrow('no conversion today');
    await parts.close();
    await journal.close();
    expect(await filesOpen()).toEqual([]);
  });

  it.runIf(process.platform === 'linux')(
    'keep no staging file open while they rest, and continue after it',
    async () => {
      const staged: string[] = [];
      const { parts, journal, add } = await writer(async ({ stagingFile }) => {
        staged.push(await readFile(stagingFile, 'utf8'));
        return { rows: 1, bytes: 1, sha256: '', keys_sha256: '', columns: [] };
      });
      await add('{"id":"a"}');
      await parts.drain();
      expect(await filesOpen()).toEqual([join(folder, 'journal.jsonl')]);
      await add('{"id":"b"}');
      await parts.drain();
      expect(staged.map((text) => JSON.parse(text))).toEqual([[{ id: 'a' }], [{ id: 'b' }]]);
      await parts.close();
      await journal.close();
    },
  );
});
