import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import duckdb from '../../../connectors/duckdb/index.js';
import files from '../../../connectors/files/index.js';
import type { DestinationConfig } from '../../../src/config/destination-config.js';
import { systemClock } from '../../../src/core/clock.js';
import { deliverTo } from '../../../src/delivery/deliver.js';
import type { DeliveryRequest, StreamDelivery } from '../../../src/delivery/delivery.js';
import { readRejects, rejectsPath, writeRejects } from '../../../src/delivery/delivery-state.js';
import { destinationStatuses } from '../../../src/delivery/destination-status.js';
import type { Connector } from '../../../src/sdk/destination.js';
import { permissionMissing } from '../../../src/sdk/errors.js';
import type { Load } from '../../../src/sdk/load.js';
import { writeFeed } from '../../../src/snapshot/feed.js';
import { Database, type Row } from '../../../src/storage/duckdb.js';
import { addErasure } from '../../../src/storage/erasures.js';
import { PublishedStream } from './published-stream.js';

let stream: PublishedStream;
let notices: string[] = [];
beforeEach(async () => {
  notices = [];
  stream = await PublishedStream.open();
});
afterEach(() => stream.close());

const flags = { full: false, adopt: false, recreate: false, verify: false };

/** Publishes the committed rows, and delivers them to a table of a DuckDB file. */
async function deliver(
  own: Partial<DestinationConfig> = {},
  asked: Partial<DeliveryRequest> = {},
): Promise<StreamDelivery> {
  await writeFeed(stream.layout, stream.feed);
  const destination: DestinationConfig = {
    name: 'warehouse',
    connector: duckdb as Connector,
    streams: ['members'],
    mode: 'mirror',
    columns: new Map(),
    table: '{stream}',
    deletes: 'hard',
    verify: 'rows',
    verifyEvery: undefined,
    onReject: 'continue',
    onTypeChange: 'variant_column',
    place: () => '',
    options: { path: join(stream.folder, 'warehouse.duckdb'), schema: 'cdp', memoryMb: 128 },
    ...own,
  };
  const context = {
    layout: stream.layout,
    resources: { memoryMb: 128, threads: 1 },
    clock: systemClock,
    signal: new AbortController().signal,
    service: { sendEvent: () => Promise.reject(new Error('it sends none')) },
    notice: (line: string) => notices.push(line),
  };
  const [delivered] = await deliverTo(context, { destination, streams: ['members'], ...flags, ...asked }, []);
  return delivered as StreamDelivery;
}

/** A statement in the warehouse. */
async function ask(sql: string, schema = 'cdp'): Promise<Row[]> {
  const database = await Database.open({ memoryMb: 128, threads: 1 });
  const session = await database.connect();
  try {
    await session.run(`ATTACH '${join(stream.folder, 'warehouse.duckdb')}' AS warehouse; USE warehouse.${schema}`);
    return await session.rows(sql);
  } finally {
    session.close();
    database.close();
  }
}

/** The connector, whose loads leave something that can be removed when `refusal` is null. */
function leaving(left: { refusal: string | null; removed: number }): Connector {
  return {
    ...duckdb,
    open: async (context: never) => {
      const destination = await duckdb.open(context);
      const load = destination.load.bind(destination);
      return Object.assign(destination, {
        load: (own: Load) => load({ ...own, finish: (outcome) => own.finish({ ...outcome, owes: true }) }),
        removeLeft: async () => {
          if (left.refusal !== null) throw permissionMissing(left.refusal);
          left.removed += 1;
        },
      });
    },
  } as Connector;
}

const rows = async () => (await ask('SELECT id, n FROM members ORDER BY id')).map(({ id, n }) => `${id} ${n}`);

describe('a delivery to a table', () => {
  it('erases keys and applies changes in one load', async () => {
    await stream.commit([
      { op: 'insert', id: 'a', n: 1 },
      { op: 'insert', id: 'b', n: 2 },
    ]);
    await deliver({ mode: 'upsert' });
    await stream.commit([{ op: 'update', id: 'a', n: 3 }]);
    await addErasure(stream.layout, 'members', ['b'], Date.now());
    await stream.commit([
      { op: 'delete', id: 'b', n: 2 },
      { op: 'insert', id: 'c', n: 4 },
    ]);
    expect(await deliver({ mode: 'upsert' })).toMatchObject({ status: 'ok', action: 'increment', error: undefined });
    expect(await rows()).toEqual(['a 3', 'c 4']);
  });

  it.each(['mirror', 'append'] as const)(
    'continues after one that was interrupted after its intent: %s',
    async (mode) => {
      await stream.commit([{ op: 'insert', id: 'a', n: 1 }]);
      await deliver({ mode });
      const pending = { load: '1:gone', fresh: false, added: [], widened: [], since: '2026-01-01T00:00:00.000Z' };
      const patch = JSON.stringify({ pending });
      await ask(`UPDATE _cdsync_state SET record = json_merge_patch(record, '${patch}')`);
      await stream.commit([{ op: 'insert', id: 'b', n: 2 }]);
      expect(await deliver({ mode })).toMatchObject({ status: 'ok', error: undefined });
      expect(await rows()).toEqual(['a 1', 'b 2']);
      expect(await deliver({ mode })).toMatchObject({ status: 'ok', action: 'nothing' });
    },
  );

  it('says in each run that something is left, and removes it first when it may, also with nothing to do', async () => {
    const left = { refusal: 'DROP is not granted' as string | null, removed: 0 };
    const connector = leaving(left);
    const owed = {
      status: 'partial',
      error: { code: 'removal_owed', message: expect.stringContaining('not granted') },
    };
    const pending = async () => {
      const [status] = await destinationStatuses(stream.layout, [{ name: 'warehouse', streams: ['members'] }]);
      return status?.erasures_pending;
    };
    await stream.commit([{ op: 'insert', id: 'a', n: 1 }]);
    expect(await deliver({ connector })).toMatchObject({ ...owed, action: 'create' });
    expect(await deliver({ connector })).toMatchObject({ ...owed, action: 'nothing' });
    await stream.commit([{ op: 'insert', id: 'b', n: 2 }]);
    expect(await deliver({ connector })).toMatchObject({ ...owed, action: 'increment' });
    expect([await rows(), left.removed, await pending()]).toEqual([['a 1', 'b 2'], 0, 1]);
    left.refusal = null;
    // A user who lost the folder with the state learns it from the record.
    await rm(stream.layout.delivery('warehouse'), { recursive: true });
    expect(await deliver({ connector })).toMatchObject({ status: 'ok', action: 'nothing', error: undefined });
    expect([left.removed, await pending()]).toEqual([1, 0]);
    expect(await deliver({ connector })).toMatchObject({ status: 'ok', action: 'nothing' });
    expect(left.removed).toBe(1);
  });

  it('keeps every digit of integers of 128 bits when it folds several commits', async () => {
    stream.isHuge = true;
    const huge = 12_345_678_901_234_567_890_123_456n;
    await stream.commit([{ op: 'insert', id: 'a', n: 1 }]);
    await deliver();
    await stream.commit([{ op: 'update', id: 'a', n: huge }]);
    await stream.commit([{ op: 'insert', id: 'b', n: -huge }]);
    expect(await deliver()).toMatchObject({ status: 'ok', action: 'increment', error: undefined });
    expect(await ask('SELECT n::VARCHAR AS n FROM members ORDER BY id')).toEqual([{ n: `${huge}` }, { n: `${-huge}` }]);
  });

  it('makes the column changes that an unfinished delivery had only announced', async () => {
    await stream.commit([{ op: 'insert', id: 'a', n: 1 }]);
    await deliver();
    const pending = { load: '1:gone', fresh: false, since: '2026-01-01T00:00:00.000Z' };
    const announced = { ...pending, added: [['note', 'VARCHAR']], widened: [['n', 'DOUBLE']] };
    await ask(
      `UPDATE _cdsync_state SET record = json_merge_patch(record, '${JSON.stringify({ pending: announced })}')`,
    );
    stream.columns = [
      { field: 'id', type: 'VARCHAR' },
      { field: 'n', type: 'DOUBLE' as never },
      { field: 'note', type: 'VARCHAR' },
    ];
    await stream.commit([
      { op: 'update', id: 'a', n: 1 },
      { op: 'insert', id: 'b', n: 2.5 },
    ]);
    expect(await deliver()).toMatchObject({ status: 'ok', error: undefined });
    expect(await ask('SELECT id, n::VARCHAR AS n, n__text, note FROM members ORDER BY id')).toEqual([
      { id: 'a', n: '1', n__text: '1.0', note: null },
      { id: 'b', n: null, n__text: '2.5', note: null },
    ]);
  });

  it('finds the columns of a table again that it was about to take over when it was cut short', async () => {
    await stream.commit([{ op: 'insert', id: 'a', n: 1 }]);
    await ask("CREATE SCHEMA cdp; CREATE TABLE cdp.members AS SELECT 'b' AS id, 2::BIGINT AS n", 'main');
    await deliver({ mode: 'upsert' }, { adopt: true });
    const pending = { load: '1:gone', fresh: false, added: [], widened: [], since: '2026-01-01T00:00:00.000Z' };
    const intent = JSON.stringify({ load: '', sequence: -1, run_id: '', pending });
    await ask(
      `UPDATE _cdsync_state SET record = json_merge_patch(json_merge_patch(record, '{"map": null, "columns": null}'), '${intent}')`,
    );
    expect(await deliver({ mode: 'upsert' })).toMatchObject({ status: 'ok', action: 'reload' });
    expect(await ask('SELECT column_name AS name FROM (DESCRIBE members)')).toEqual(
      ['id', 'n', '_synced_at'].map((name) => ({ name })),
    );
    expect(await rows()).toEqual(['a 1', 'b 2']);
  });

  it.each(['taken over', 'without its comment', 'without its record'])(
    'leaves rows that the snapshot lacks as they are in a table %s',
    async (how) => {
      await stream.commit([
        { op: 'insert', id: 'a', n: 1 },
        { op: 'insert', id: 'b', n: 2 },
      ]);
      if (how === 'taken over') {
        await ask("CREATE SCHEMA cdp; CREATE TABLE cdp.members AS SELECT 'b' AS id, 2::BIGINT AS n", 'main');
      } else await deliver({ mode: 'upsert' });
      await stream.commit([{ op: 'delete', id: 'b', n: 2 }]);
      if (how === 'without its comment') await ask("COMMENT ON TABLE members IS 'ours'");
      if (how === 'without its record') await ask('DELETE FROM _cdsync_state');
      const adopt = how !== 'without its comment';
      expect(await deliver({ mode: 'upsert' }, { adopt })).toMatchObject({ status: 'ok', action: 'reload' });
      expect(await rows()).toEqual(['a 1', 'b 2']);
    },
  );

  it.each([
    {
      what: 'it has 1 row, the snapshot 2',
      sql: "DELETE FROM members WHERE id = 'a'; UPDATE _cdsync_state SET record = json_merge_patch(record, '{\"rows\": 1}')",
    },
    { what: 'values were edited, or are in other rows', sql: 'UPDATE members SET n = 3 - n' },
  ])('loads a table again that is not as the snapshot, and says how it differed: $what', async ({ what, sql }) => {
    await stream.commit([
      { op: 'insert', id: 'a', n: 1 },
      { op: 'insert', id: 'b', n: 2 },
    ]);
    await deliver();
    await ask(sql);
    const delivered = await deliver({}, { verify: true });
    expect(delivered).toMatchObject({ action: 'reload', why: `the whole table was compared: ${what}` });
    expect(delivered.error).toMatchObject({ code: 'table_changed' });
    expect(await rows()).toEqual(['a 1', 'b 2']);
  });

  it('loads all rows if a table to compare has more rows than the snapshot', async () => {
    await stream.commit(['a', 'b', 'c'].map((id, n) => ({ op: 'insert', id, n })));
    await deliver({ mode: 'upsert' });
    await stream.commit([{ op: 'delete', id: 'c', n: 2 }]);
    await deliver({ mode: 'upsert' });
    await ask("UPDATE members SET n = 1 - n WHERE id < 'c'");
    const verify = { mode: 'upsert', verifyEvery: 1 } as const;
    expect(await deliver(verify)).toMatchObject({ status: 'ok', action: 'nothing' });
    expect(await rows()).toEqual(['a 1', 'b 0', 'c 2']);
    const why = 'asked (--verify): it has rows that the snapshot lacks';
    expect(await deliver(verify, { verify: true })).toMatchObject({ status: 'ok', action: 'reload', why });
    expect(await rows()).toEqual(['a 0', 'b 1', 'c 2']);
    expect(notices).toEqual([]);
  });

  it('says that a table of mode append cannot be compared', async () => {
    await stream.commit([{ op: 'insert', id: 'a', n: 1 }]);
    await deliver({ mode: 'append' });
    expect(await deliver({ mode: 'append' }, { verify: true })).toMatchObject({ status: 'ok', action: 'nothing' });
    expect(notices).toEqual([expect.stringContaining('was not compared as a whole')]);
  });

  it('leaves the moment at which a row was marked as deleted, however often all rows are loaded', async () => {
    await stream.commit([
      { op: 'insert', id: 'a', n: 1 },
      { op: 'insert', id: 'b', n: 2 },
    ]);
    await deliver({ deletes: 'soft' });
    await stream.commit([{ op: 'delete', id: 'b', n: 2 }]);
    await deliver({ deletes: 'soft' });
    const marks = () => ask('SELECT id, epoch_us(_deleted_at)::VARCHAR AS at FROM members ORDER BY id');
    const before = await marks();
    expect(before).toEqual([
      { id: 'a', at: null },
      { id: 'b', at: `${Date.UTC(2026, 0, 2)}000` },
    ]);
    for (let run = 0; run < 2; run += 1) {
      expect(await deliver({ deletes: 'soft' }, { full: true })).toMatchObject({ status: 'ok', action: 'reload' });
      expect(await marks()).toEqual(before);
    }
  });

  it.each([
    ['upsert', 'hard'],
    ['mirror', 'soft'],
    ['mirror', 'hard'],
  ] as const)('never has rows beside their copies without a key: %s, %s deletes', async (mode, deletes) => {
    await stream.commit([{ op: 'insert', id: 'a', n: 1 }]);
    await deliver({ mode, deletes });
    await ask(
      'CREATE TABLE other AS SELECT * EXCLUDE (id), id AS pk FROM members; DROP TABLE members; ALTER TABLE other RENAME TO members',
    );
    await ask("COMMENT ON TABLE members IS '[cdsync x]'");
    const delivered = await deliver({ mode, deletes });
    expect(delivered.action).toBe('refused');
    expect(delivered.error).toMatchObject({
      code: 'table_altered',
      message: expect.stringContaining('no column "id"'),
    });
    expect(await ask('SELECT pk, n::INTEGER AS n FROM members')).toEqual([{ pk: 'a', n: 1 }]);
  });

  it('counts the generations of a table that is recreated on', async () => {
    await stream.commit([{ op: 'insert', id: 'a', n: 1 }]);
    await deliver();
    await deliver({}, { full: true });
    await deliver({}, { recreate: true });
    const records = await ask("SELECT record->>'generation' AS generation FROM _cdsync_state");
    expect(records).toEqual([{ generation: '3' }]);
  });

  /** Keys of more than four bytes are refused. */
  const narrow = { connector: { ...duckdb, capabilities: { ...duckdb.capabilities, keyBytes: 4 } } as Connector };
  const listed = () => readRejects(rejectsPath(stream.layout, 'warehouse', 'members'));

  it('lists refused values again, if it was killed between its commit and that list', async () => {
    await stream.commit([
      { op: 'insert', id: 'a', n: 1 },
      { op: 'insert', id: 'too long', n: 2 },
    ]);
    expect(await deliver(narrow)).toMatchObject({ status: 'partial', refused: 1 });
    await rm(rejectsPath(stream.layout, 'warehouse', 'members'));
    const why = 'the list of values that it cannot hold was lost';
    expect(await deliver(narrow)).toMatchObject({ status: 'partial', action: 'reload', why, refused: 1 });
    expect(await listed()).toMatchObject([{ key: 'too long', column: 'id' }]);
    expect(await deliver(narrow)).toMatchObject({ status: 'ok', action: 'nothing', refused: 1 });
  });

  it('loads only changes after an erasure of a key that the table cannot hold', async () => {
    await stream.commit([
      { op: 'insert', id: 'a', n: 1 },
      { op: 'insert', id: 'too long', n: 2 },
    ]);
    await deliver(narrow);
    await addErasure(stream.layout, 'members', ['too long'], Date.now());
    await writeRejects(rejectsPath(stream.layout, 'warehouse', 'members'), []);
    await stream.commit([{ op: 'delete', id: 'too long', n: 2 }]);
    expect(await deliver(narrow)).toMatchObject({ status: 'ok', action: 'increment', refused: 0 });
    expect(await deliver(narrow)).toMatchObject({ status: 'ok', action: 'nothing', refused: 0 });
  });

  it('lists the columns beyond the most that a table may have', async () => {
    const small = { connector: { ...duckdb, capabilities: { ...duckdb.capabilities, maxColumns: 2 } } as Connector };
    await stream.commit([{ op: 'insert', id: 'a', n: 1 }]);
    expect(await deliver({ ...small, onReject: 'fail' })).toMatchObject({
      status: 'failed',
      error: { code: 'values_refused', message: expect.stringContaining('at most 2 columns in column "n"') },
    });
    expect(await deliver(small)).toMatchObject({ status: 'partial', refused: 1, error: { code: 'values_refused' } });
    expect(await listed()).toMatchObject([{ key: null, column: 'n', reason: 'a table has at most 2 columns' }]);
    await stream.commit([{ op: 'update', id: 'a', n: 2 }]);
    expect(await deliver(small)).toMatchObject({ status: 'ok', action: 'increment', refused: 1 });
    expect(await ask('SELECT * EXCLUDE (_synced_at) FROM members')).toEqual([{ id: 'a' }]);
    expect(await deliver(small)).toMatchObject({ status: 'ok', action: 'nothing', refused: 1 });
    const why = '"n" was one column too many';
    expect(await deliver()).toMatchObject({ status: 'ok', action: 'reload', why, refused: 0 });
    expect(await rows()).toEqual(['a 2']);
  });
});

it('writes files beside another folder that has a manifest too', async () => {
  await mkdir(join(stream.folder, 'exports', 'site'), { recursive: true });
  await writeFile(join(stream.folder, 'exports', 'site', 'manifest.json'), '{"name":"a web application"}');
  await stream.commit([{ op: 'insert', id: 'a', n: 1 }]);
  const written = { format: 'csv', csvFormulas: 'keep', partitionBy: [], keep: 1, fileMode: '0600', memoryMb: 128 };
  const options = { path: join(stream.folder, 'exports'), ...written };
  for (const action of ['create', 'nothing'])
    expect(await deliver({ connector: files as Connector, options })).toMatchObject({ status: 'ok', action });
});
