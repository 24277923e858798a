import { mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readErasures } from '../../../src/storage/erasures.js';
import { JobLayout } from '../../../src/storage/layout.js';
import { createRun, discardStreams } from '../../../src/storage/run-state.js';

let root: string;
let layout: JobLayout;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'unreadable-'));
  layout = new JobLayout(root, 'nightly');
  await mkdir(layout.runs, { recursive: true });
});
afterEach(() => rm(root, { recursive: true }));

/** A link to itself, which no user can read: an example of any error but that of a missing folder. */
const unreadable = (path: string) => symlink(path, path);

describe('a folder that cannot be read is not an empty one', () => {
  it('when streams of a run are discarded: the run keeps the others', async () => {
    const run = await createRun(layout, 0);
    await unreadable(join(layout.run(run.runId), 'streams'));
    await expect(discardStreams(layout, run.runId, [])).rejects.toMatchObject({ code: 'ELOOP' });
    expect(await readdir(layout.run(run.runId))).toContain('run.json');
  });

  it('when a delivery asks which keys were erased', async () => {
    await mkdir(layout.erasuresFolder, { recursive: true });
    expect(await readErasures(layout, 'members')).toEqual([]);
    await unreadable(layout.erasures('members'));
    await expect(readErasures(layout, 'members')).rejects.toMatchObject({ code: 'ELOOP' });
  });
});
