import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { exportOptions } from '../../../connectors/export/options.js';
import { ExportPlace, type Store } from '../../../connectors/export/place.js';
import { map } from '../../../src/sdk/option.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-export-place-'));
  await writeFile(join(folder, 'rows'), 'id\n');
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const file = { name: 'list.csv', local: 'rows', rows: 0, bytes: 3, sha256: 'a', clear_sha256: 'a' };
const properties = { job: 'j', stream: 's', run_id: 'r', at: 0, sequence: 1, day_sequence: 1 };
const noted = async () => undefined;

/** Hands the file over. @returns the result, and the names that were put */
async function handedOver(store: Partial<Store>, replaceable: readonly (typeof file)[] = []) {
  const names: string[] = [];
  const put: Store['put'] = async (task) => {
    names.push(task.name);
    return store.put?.(task) ?? 'put';
  };
  const options = z.parse(map(exportOptions), { path: folder, file: 'list.csv', checksum: 'sha256' });
  const rest = { remove: async () => true, check: async () => ({ reached: '', lacks: [] }), close: () => undefined };
  const place = new ExportPlace(
    { find: async () => undefined, ...rest, ...store, put },
    options,
    folder,
    () => undefined,
  );
  const task = { file, path: join(folder, 'rows'), properties, replaceable, companions: [], isTried: false };
  const notes = { uploadedTo: undefined, uploaded: noted, refused: noted, beside: noted };
  return { ...(await place.handOver({ ...task, ...notes })), names };
}

describe('a file that is handed over', () => {
  it('is not read back if only its checksum was', async () => {
    const put: Store['put'] = async ({ name }) => (name === 'list.csv' ? 'not_read_back' : 'put');
    expect((await handedOver({ put })).isReadBack).toBe(false);
    expect((await handedOver({})).isReadBack).toBe(true);
  });

  it('is left where the same bytes have the name, and no hash distinguishes others', async () => {
    const find: Store['find'] = async (name) => (name === 'list.csv' ? { bytes: 3 } : undefined);
    expect((await handedOver({ find }, [file])).names).toEqual(['list.csv.sha256']);
    expect((await handedOver({ find }, [{ ...file, sha256: 'b' }])).names).toEqual(['list.csv', 'list.csv.sha256']);
  });
});
