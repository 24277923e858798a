import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import duckdb from '../../../connectors/duckdb/index.js';
import type { DestinationConfig } from '../../../src/config/destination-config.js';
import { checkDestination } from '../../../src/delivery/check-destination.js';
import type { Connector } from '../../../src/sdk/destination.js';
import { JobLayout } from '../../../src/storage/layout.js';

it('a check by default writes nothing', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-checked-'));
  const { check: _, ...connector } = duckdb;
  const destination: DestinationConfig = {
    ...{ name: 'warehouse', connector: connector as Connector, streams: ['members'], mode: 'mirror' },
    ...{ columns: new Map(), table: '{stream}', deletes: 'hard', verify: 'rows', verifyEvery: undefined },
    place: () => '',
    ...{ onReject: 'continue', onTypeChange: 'variant_column' },
    options: { path: join(folder, 'new', 'warehouse.duckdb'), schema: 'cdp', memoryMb: 128 },
  };
  const context = {
    layout: new JobLayout(folder, 'nightly'),
    service: { sendEvent: () => Promise.reject(new Error('it sends none')) },
    signal: new AbortController().signal,
    notice: () => undefined,
  };
  expect(await checkDestination(context, destination)).toMatchObject({ lacks: [], error: undefined });
  expect(await readdir(folder)).toEqual([]);
  await rm(folder, { recursive: true });
});
