import { createHash } from 'node:crypto';
import { link, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { z } from 'zod';
import { FolderStore } from '../../../connectors/export/folder.js';
import type { ExportOptions } from '../../../connectors/export/names.js';
import { exportOptions } from '../../../connectors/export/options.js';
import { ExportPlace } from '../../../connectors/export/place.js';
import { map } from '../../../src/sdk/option.js';

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
      ...{ isTried: false, refused: async () => undefined },
      uploaded: () => writeFile(join(place, 'list.csv'), 'of another writer\n'),
    });
    expect(await put).toBe(outcome);
    expect([await readdir(place), await readFile(join(place, 'list.csv'), 'utf8')]).toEqual([['list.csv'], left]);
  },
);

it('writes through no link that has the temporary name, and over no file that gets the final one', async () => {
  const [place, other] = [join(folder, 'place'), join(folder, 'other')];
  await mkdir(place);
  await writeFile(other, 'of another writer\n');
  await symlink(other, join(place, '.list.csv.part'));
  const store = new FolderStore(place, 0o640);
  const task = {
    ...{ local: join(folder, 'local'), name: 'list.csv', replaces: false },
    file: { name: 'list.csv', bytes: 4, sha256: '', md5: '' },
    ...{ isTried: false, refused: async () => undefined, uploaded: async () => undefined },
  };
  expect(await store.put({ ...task, temporary: '.list.csv.part' })).toBe('put');
  await writeFile(join(place, 'list.csv'), 'of another writer\n');
  expect(await store.put({ ...task, temporary: undefined })).toBe('taken');
  const text = (path: string) => readFile(path, 'utf8');
  expect([await text(other), await text(join(place, 'list.csv'))]).toEqual(Array(2).fill('of another writer\n'));
});

it.each(['list.csv', '.list.csv.part'])('says that a folder has the name %s', async (name) => {
  await mkdir(join(folder, 'place', name), { recursive: true });
  const put = new FolderStore(join(folder, 'place'), 0o640).put({
    ...{ local: join(folder, 'local'), name: 'list.csv', temporary: '.list.csv.part', replaces: true },
    file: { name: 'list.csv', bytes: 4, sha256: '', md5: '' },
    ...{ isTried: false, refused: async () => undefined, uploaded: async () => undefined },
  });
  await expect(put).rejects.toThrow('a folder has the name of the file, or its temporary name');
});

/** The address of a folder, as the state of an export has it. */
const addressOf = (place: string) => createHash('sha256').update(place).digest('hex').slice(0, 16);

interface Earlier {
  /** The folder of the earlier try, and its temporary name. */
  readonly at: string;
  readonly name: string;
  readonly local?: string;
  readonly upload?: 'direct' | 'rename';
  /** A file of this name and size that cdsync has written. */
  readonly written?: string;
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

/** A second try to hand over a file whose bytes were whole under a temporary name. */
function again(place: string, { at, name, local = join(folder, 'local'), upload = 'rename', written }: Earlier) {
  const options = z.parse(map(exportOptions), { path: place, file: 'list.csv', upload }) as unknown as ExportOptions;
  const steps: string[] = [];
  const notices: string[] = [];
  const store = new FolderStore(place, 0o640);
  const handed = new ExportPlace(store, options, folder, (line) => notices.push(line)).handOver({
    file: { name: 'list.csv', local: '1', rows: 1, bytes: 4, sha256: sha256('new\n'), clear_sha256: '' },
    properties: { job: 'job', stream: 'members', run_id: 'run', at: 0, sequence: 1, day_sequence: 1 },
    replaceable: written === undefined ? [] : [{ name: 'list.csv', bytes: 4, sha256: sha256(written) }],
    ...{ path: local, companions: [], isTried: true, uploadedTo: { name, place: addressOf(at) } },
    uploaded: async ({ name }) => void steps.push(`uploaded as ${name}`),
    refused: async () => void steps.push('refused'),
    beside: async () => undefined,
  });
  return { handed, steps, notices };
}

it('after a kill between both names, does not write a file again that the receiver has moved, and says so of one that is gone', async () => {
  const place = join(folder, 'place');
  await mkdir(place);
  await writeFile(join(place, '.list.csv.part'), 'new\n');
  await link(join(place, '.list.csv.part'), join(folder, 'moved.csv'));
  const moved = again(place, { at: place, name: '.list.csv.part' });
  await moved.handed;
  expect([await readdir(place), moved.notices]).toEqual([[], []]);

  await writeFile(join(place, '.list.csv.part'), 'new\n');
  const gone = again(place, { at: place, name: '.list.csv.part' });
  await gone.handed;
  expect([await readdir(place), gone.notices]).toEqual([['list.csv'], [expect.stringContaining('may have taken it')]]);
});

it('does not count bytes as whole under the temporary name once they are written again', async () => {
  const place = join(folder, 'place');
  await mkdir(place);
  await writeFile(join(place, '.list.csv.part'), 'new\n');
  const { handed, steps } = again(place, { at: place, name: '.list.csv.part', local: join(folder, 'none') });
  await expect(handed).rejects.toThrow();
  expect([steps, await readdir(place)]).toEqual([['refused'], []]);
});

it.each([
  ['is gone under both names: it was taken', '.list.csv.part', 'place', []],
  ['is gone under a temporary name of then: it was taken', 'old.tmp', 'place', []],
  ['waits under a temporary name of then', 'left.tmp', 'place', ['list.csv']],
  ['went to another place then', '.list.csv.part', 'other', ['list.csv']],
])('a file that %s', async (_, name, at, expected) => {
  const place = join(folder, 'place');
  await mkdir(place);
  await writeFile(join(place, 'left.tmp'), 'new\n');
  const { handed, steps } = again(place, { at: join(folder, at), name });
  await handed;
  const left = name === 'left.tmp' ? [] : ['left.tmp'];
  expect(await readdir(place)).toEqual([...left, ...expected]);
  expect(steps).toEqual(expected.length === 0 ? [] : ['refused', 'uploaded as .list.csv.part']);
});

it.each([
  ['has its size, and other bytes', 'old\n', {}, 'old\n'],
  ['has the size of one that cdsync wrote, and other bytes', 'old\n', { written: 'was\n' }, 'old\n'],
  ['is the one that cdsync wrote', 'was\n', { written: 'was\n' }, 'new\n'],
  ['has its bytes already', 'new\n', {}, 'new\n'],
  ['is shorter, where uploads are renamed', 'ne', {}, 'ne'],
  ['is shorter, where uploads have the final name: a torn one', 'ne', { upload: 'direct' as const }, 'new\n'],
])('a file of the name that %s', async (_, text, earlier, left) => {
  const place = join(folder, 'place');
  await mkdir(place);
  await writeFile(join(place, 'list.csv'), text);
  const { handed } = again(place, { at: join(folder, 'other'), name: '.list.csv.part', ...earlier });
  const outcome = await handed.then(
    () => 'handed over',
    (error: { code?: string }) => error.code,
  );
  expect(outcome).toBe(left === 'new\n' ? 'handed over' : 'file_exists');
  expect(await readFile(join(place, 'list.csv'), 'utf8')).toBe(left);
});

it('a file that was uploaded under its final name, and is gone, is handed over again', async () => {
  const place = join(folder, 'place');
  await mkdir(place);
  await again(place, { at: place, name: 'list.csv', upload: 'direct' }).handed;
  expect(await readFile(join(place, 'list.csv'), 'utf8')).toBe('new\n');
});
