import { afterEach, beforeEach, expect, it } from 'vitest';
import { z } from 'zod';
import { bigqueryConnector } from '../../../connectors/bigquery/index.js';
import { snowflakeConnector } from '../../../connectors/snowflake/index.js';
import { systemClock } from '../../../src/core/clock.js';
import { deliverTo } from '../../../src/delivery/deliver.js';
import { destinationStatuses } from '../../../src/delivery/destination-status.js';
import type { Connector } from '../../../src/sdk/destination.js';
import { map } from '../../../src/sdk/option.js';
import { writeFeed } from '../../../src/snapshot/feed.js';
import { FakeBigquery } from '../../fixtures/bigquery.js';
import { FakeSnowflake } from '../../fixtures/snowflake.js';
import { PublishedStream } from './published-stream.js';

/* Tables of staged rows, and files beside them, have values that a rule hides afterwards: what could not be dropped is owed. */

const [bigquery, snowflake] = [new FakeBigquery(), new FakeSnowflake()];
const connectors = {
  bigquery: bigqueryConnector(async () => bigquery),
  snowflake: snowflakeConnector(async () => snowflake),
};

let stream: PublishedStream;
beforeEach(async () => {
  stream = await PublishedStream.open();
});
afterEach(() => stream.close());

const notRefused = () => false;
const flags = { full: false, adopt: false, recreate: false, verify: false };

/** Publishes the committed rows, and delivers them. @returns the outcome, and what `status` counts */
async function deliver(name: keyof typeof connectors, values: Readonly<Record<string, unknown>>) {
  await writeFeed(stream.layout, stream.feed);
  const connector = connectors[name] as unknown as Connector;
  const destination = {
    ...{ name: 'warehouse', connector, streams: ['members'], mode: 'mirror', columns: new Map(), table: '{stream}' },
    ...{ deletes: 'hard', verify: 'rows', verifyEvery: undefined, onReject: 'continue' },
    ...{
      onTypeChange: 'variant_column',
      place: () => '',
      options: z.parse(map(connectors[name].options as never), values),
    },
  } as Parameters<typeof deliverTo>[1]['destination'];
  const context = {
    layout: stream.layout,
    resources: { memoryMb: 128, threads: 1 },
    clock: systemClock,
    signal: new AbortController().signal,
    service: { sendEvent: () => Promise.reject(new Error('it sends none')) },
    notice: () => undefined,
  };
  const [delivered] = await deliverTo(context, { destination, streams: ['members'], ...flags }, []);
  const [status] = await destinationStatuses(stream.layout, [{ name: 'warehouse', streams: ['members'] }]);
  return {
    status: delivered?.status,
    action: delivered?.action,
    error: delivered?.error?.code,
    pending: status?.erasures_pending,
  };
}

const owed = { status: 'partial', error: 'removal_owed', pending: 1 };
const done = { status: 'ok', error: undefined, pending: 0 };

it('bigquery says in each run that a stage could not be dropped, and drops it first when it may', async () => {
  const { dataset, options, close } = await bigquery.place();
  const run = () => deliver('bigquery', options);
  const stages = async () => {
    const found = await dataset.query(
      "SELECT table_name FROM duckdb_tables() WHERE starts_with(table_name, '_cdsync_rows_')",
    );
    return Promise.all(found.map(({ table_name }) => dataset.query(`FROM "${table_name}"`)));
  };
  await stream.commit([{ op: 'insert', id: 'a', n: 1 }]);
  // A stage that is not there yet is dropped before it is made.
  let drops = 0;
  dataset.refuses = (sql) => {
    drops += sql.startsWith('DROP TABLE') ? 1 : 0;
    return sql.startsWith('DROP TABLE') && drops > 1;
  };
  expect(await run()).toEqual({ ...owed, action: 'create' });
  expect(await stages()).toMatchObject([[{ id: 'a' }]]);
  expect(await run()).toEqual({ ...owed, action: 'nothing' });
  await stream.commit([{ op: 'insert', id: 'b', n: 2 }]);
  dataset.refuses = notRefused;
  expect(await run()).toEqual({ ...done, action: 'increment' });
  expect(await stages()).toEqual([]);
  // A process that is killed right after its commit has dropped nothing and noted nothing.
  let isKilled = false;
  dataset.refuses = (sql) => {
    const isRefused = isKilled;
    isKilled ||= sql === 'COMMIT TRANSACTION';
    return isRefused;
  };
  await stream.commit([{ op: 'insert', id: 'c', n: 3 }]);
  expect(await run()).toMatchObject({ status: 'failed', pending: 1 });
  expect(await stages()).toMatchObject([[{ id: 'c' }]]);
  dataset.refuses = notRefused;
  expect(await run()).toEqual({ ...done, action: 'nothing' });
  expect(await stages()).toEqual([]);
  const from = dataset.jobs.length;
  expect(await run()).toEqual({ ...done, action: 'nothing' });
  // A delivery with nothing to do pays nothing where nothing is owed.
  expect(dataset.jobs.slice(from).filter((sql) => !sql.startsWith('SELECT'))).toEqual([]);
  await close();
});

it('snowflake says in the run that its stages could not be dropped; they end with their session', async () => {
  const { schema, options, close } = await snowflake.place();
  const run = () => deliver('snowflake', options);
  await stream.commit([{ op: 'insert', id: 'a', n: 1 }]);
  schema.refuses = (sql) =>
    /^DROP (STAGE|TABLE)/.test(sql) && schema.statements.some((each) => each.startsWith('COPY'));
  expect(await run()).toEqual({ ...owed, action: 'create' });
  expect(await run()).toEqual({ ...done, action: 'nothing' });
  schema.refuses = notRefused;
  await stream.commit([{ op: 'insert', id: 'b', n: 2 }]);
  expect(await run()).toEqual({ ...done, action: 'increment' });
  await close();
});
