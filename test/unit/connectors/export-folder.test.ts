import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { FolderStore } from '../../../connectors/export/folder.js';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-export-folder-'));
  await writeFile(join(folder, 'local'), 'new\n');
});
afterEach(() => rm(folder, { recursive: true }));

it.each([
  [false, 'taken', 'of another writer\n'],
  [true, 'put', 'new\n'],
])(
  'a file that another writer gives the name at the last moment is replaced only if asked to: %s',
  async (replaces, outcome, left) => {
    const place = join(folder, 'place');
    const store = new FolderStore(place, 0o640);
    const put = store.put({
      ...{ local: join(folder, 'local'), name: 'list.csv', temporary: '.list.csv.part', replaces },
      file: { name: 'list.csv', bytes: 4, sha256: '', md5: '' },
      ...{ isTried: false, isUploaded: false, refused: async () => undefined },
      uploaded: () => writeFile(join(place, 'list.csv'), 'of another writer\n'),
    });
    expect(await put).toBe(outcome);
    expect([await readdir(place), await readFile(join(place, 'list.csv'), 'utf8')]).toEqual([['list.csv'], left]);
  },
);
