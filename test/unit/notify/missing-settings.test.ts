import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { isWritable, missingAfterRunSettings } from '../../../src/notify/missing-settings.js';

test('a text file of metrics that node_exporter would not read is reported', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cdsync-missing-'));
  const missing = (name: string) =>
    missingAfterRunSettings({ notify: [], after: [], metrics: { textfile: join(folder, name) } }, folder);
  expect(await missing('cdsync.prom')).toEqual([]);
  expect(await missing('cdsync.txt')).toEqual([
    `metrics: node_exporter reads only files whose names end with .prom, and not ${join(folder, 'cdsync.txt')}`,
  ]);
});

test('a folder can be written to if it can be made, and not below a file', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cdsync-missing-'));
  writeFileSync(join(folder, 'file'), '');
  expect(await isWritable(join(folder, 'new', 'folder'))).toBe(true);
  expect(await isWritable(join(folder, 'file', 'folder'))).toBe(false);
});
