import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, it } from 'vitest';
import files from '../../../connectors/files/index.js';
import { folderOf } from '../../../connectors/files/manifest.js';
import { comparedRows } from '../../../src/conformance/compare.js';
import { type TablePlace, tableConformance } from '../../../src/conformance/index.js';
import { Azurite, withoutAzurite } from '../../fixtures/azurite.js';
import { setQuery } from '../../fixtures/set-reader.js';

const store = await Azurite.open();

if (store === undefined) it.skip(`in Azure, as Parquet: ${withoutAzurite}`);
else
  describe('in Azure, as Parquet', () => {
    const server = { host: '127.0.0.1', port: store.port };
    afterAll(() => store.close());

    async function containerPlace(): Promise<TablePlace> {
      const container = await (store as Azurite).container();
      const folder = await mkdtemp(join(tmpdir(), 'cdsync-files-'));
      const fetched = async (name: string) => {
        const local = join(folder, name);
        await mkdir(dirname(local), { recursive: true });
        await writeFile(local, await (store as Azurite).bytes(container, `exports/${name}`));
        return local;
      };
      const { endpoint, account } = (store as Azurite).login;
      const at = { url: `az://${container}/exports`, endpoint, account, memory_mb: 256 };
      const options = { ...at, sas: (store as Azurite).sas(container, 'rcwdl') };
      return {
        options,
        rows: async (table) => comparedRows(await setQuery((name) => fetched(`${folderOf(table)}/${name}`))),
        through: (port) => ({ endpoint: `http://127.0.0.1:${port}` }),
        withoutPermission: async () => ({ ...at, sas: (store as Azurite).sas(container, 'rl') }),
        contents: async () => Object.entries(await (store as Azurite).blobs(container)).map((blob) => blob.join(' ')),
        close: () => rm(folder, { recursive: true, force: true }),
      };
    }

    tableConformance({ connector: files, server, place: containerPlace });
  });
