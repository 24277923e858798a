import { afterAll, describe, expect, it } from 'vitest';
import { parseExact, stringifyExact } from '../../../connectors/iceberg/exact-json.js';
import iceberg from '../../../connectors/iceberg/index.js';
import { currentSchema, type Snapshot, type TableMetadata } from '../../../connectors/iceberg/table-metadata.js';
import { differences } from '../../../src/conformance/compare.js';
import { after, before, column, delivered, ownless, undelivered } from '../../../src/conformance/rows.js';
import { TestTarget } from '../../../src/conformance/test-target.js';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { IcebergCatalog } from '../../fixtures/iceberg-catalog.js';
import { icebergPlace } from '../../fixtures/iceberg-place.js';
import { icebergRun } from '../../fixtures/iceberg-rows.js';
import { LoadDriver } from '../../fixtures/load-driver.js';

const extensions = await duckdbExtensions(['avro', 'httpfs', 'iceberg']);
const catalog = extensions === undefined ? undefined : await IcebergCatalog.start();
afterAll(() => catalog?.stop());

/** A table that others work on too. */
class Shared {
  readonly subject: TestTarget;
  readonly #namespace: string;

  private constructor(subject: TestTarget) {
    this.subject = subject;
    this.#namespace = String(subject.place.options.namespace);
  }

  static async open(destination: Record<string, unknown> = {}): Promise<Shared> {
    // Without a sort order, because DuckDB alone writes into no sorted table.
    const options = { sort: [], memory_mb: 256 };
    const place = await icebergPlace(catalog as IcebergCatalog, { extensions: extensions ?? '', options });
    return new Shared(await TestTarget.open({ connector: iceberg, place, destination }));
  }

  /** A statement of another engine; `people` is the table. */
  async others(sql: string): Promise<void> {
    const reading = { catalog: catalog?.url ?? '', namespace: this.#namespace, extensions: extensions ?? '' };
    await icebergRun(reading, [sql.replace(/\bpeople\b/, `ice.${this.#namespace}.people`)]);
  }

  get #url(): string {
    return `${catalog?.url}/v1/namespaces/${this.#namespace}/tables/people`;
  }

  /** The metadata, with exact ids. */
  async metadata(): Promise<TableMetadata & { readonly 'metadata-log': readonly unknown[] }> {
    const { metadata } = parseExact(await (await fetch(this.#url)).text()) as { metadata: never };
    return metadata;
  }

  async snapshots(): Promise<readonly Snapshot[]> {
    return (await this.metadata()).snapshots ?? [];
  }

  /** A commit of others. */
  async commit(...updates: readonly object[]): Promise<void> {
    const headers = { 'content-type': 'application/json' };
    const body = stringifyExact({ requirements: [], updates });
    const { status } = await fetch(this.#url, { method: 'POST', headers, body });
    expect(status).toBe(200);
  }

  async moveTo(snapshot: Snapshot | undefined, added: readonly object[] = []): Promise<void> {
    const reference = { 'ref-name': 'main', type: 'branch', 'snapshot-id': snapshot?.['snapshot-id'] };
    await this.commit(...added, { action: 'set-snapshot-ref', ...reference });
  }

  /** Adds a column, as a user would. */
  async addColumn(name: string): Promise<void> {
    const metadata = await this.metadata();
    const schema = currentSchema(metadata);
    const id = metadata['last-column-id'] + 1;
    const fields = [...schema.fields, { id, name, required: false, type: 'string' }];
    await this.commit(
      { action: 'add-schema', schema: { ...schema, fields }, 'last-column-id': id },
      { action: 'set-current-schema', 'schema-id': -1 },
    );
  }

  /** Checks the action of the next delivery, the reason for it, and the rows in the table. */
  async delivers(action: string, why = /./): Promise<void> {
    const report = delivered(await this.subject.push());
    expect([report.action, report.why]).toEqual([action, expect.stringMatching(why)]);
    const rows = ownless(await this.subject.place.rows('people')).map((row) => new Map(row));
    for (const row of rows) row.delete('note');
    expect(differences(await this.subject.published(), rows)).toEqual([]);
  }
}

describe.runIf(catalog)('an Iceberg table that others work on too', () => {
  it.each([
    ['deletes rows', "DELETE FROM people WHERE id = 'p7'", /94 rows, recorded 95/],
    ['edits a value', "UPDATE people SET name = 'x' WHERE id = 'p7'", /stamp is another/],
  ])('is loaded whole again if another program %s', async (_, statement, why) => {
    const table = await Shared.open();
    delivered(await table.subject.run(before));
    await table.others(statement);
    await table.delivers('reload', why);
    await table.delivers('nothing');
    await table.subject.close();
  });

  it('is as recorded after a compaction, and not after a rollback', async () => {
    const table = await Shared.open();
    delivered(await table.subject.run(before));
    delivered(await table.subject.run(after));
    const [first, second] = (await table.snapshots()) as [Snapshot, Snapshot];
    const compacted = {
      ...second,
      'snapshot-id': 4_000_000_000_000_000_001n,
      'parent-snapshot-id': second['snapshot-id'],
      'sequence-number': 9,
      'timestamp-ms': Date.now(),
      summary: { operation: 'replace' },
    };
    await table.moveTo(compacted, [{ action: 'add-snapshot', snapshot: compacted }]);
    await table.delivers('nothing');
    await table.moveTo(first);
    await table.delivers('reload', /stamp is another/);
    await table.subject.close();
  });

  it('keeps the values of a column that a user has added, through reloads and changes', async () => {
    const table = await Shared.open();
    delivered(await table.subject.run(before));
    await table.addColumn('note');
    await table.delivers('nothing');
    await table.others("UPDATE people SET note = 'of ' || id");
    await table.delivers('reload');
    delivered(await table.subject.run(after));
    const notes = new Map((await table.subject.place.rows('people')).map((row) => [row.get('id'), row.get('note')]));
    // p7 has changed, p50 has not, p1 is new.
    expect([notes.get('p7'), notes.get('p50'), notes.get('p1')]).toEqual(['of p7', 'of p50', null]);
    await table.subject.close();
  });

  it('is refused in mode append if others have changed it, until a person decides', async () => {
    const table = await Shared.open({ mode: 'append' });
    delivered(await table.subject.run(before));
    await table.others("UPDATE people SET name = 'x' WHERE id = 'p7'");
    expect(undelivered(await table.subject.run(after)).code).toBe('table_changed');
    delivered(await table.subject.push({ adopt: true }));
    const rows = await table.subject.place.rows('people');
    expect(rows).toHaveLength(95 + 15);
    expect(column(rows, 'name')).toContain('x');
    await table.subject.close();
  });
});

describe.runIf(catalog)('the record of an Iceberg table', () => {
  it('is in one commit with schema and rows; a new column makes no other', async () => {
    const table = await Shared.open();
    delivered(await table.subject.run(before));
    const { 'metadata-log': log, snapshots: made = [] } = await table.metadata();
    delivered(await table.subject.run(`SELECT *, id || '!' AS more FROM (${after})`));
    const metadata = await table.metadata();
    expect(metadata['metadata-log']).toHaveLength(log.length + 1);
    expect(metadata.snapshots).toHaveLength(made.length + 1);
    expect(metadata.snapshots?.at(-1)).toMatchObject({ 'schema-id': metadata['current-schema-id'] });
    await table.delivers('nothing');
    await table.subject.close();
  });

  it('is in several properties if the table has many columns', async () => {
    const table = await Shared.open();
    const wide = (of: string) => Array.from({ length: 60 }, (_, index) => `${of} || i AS "Größe ${index}"`).join(', ');
    const rows = (of: string) => `SELECT 'p' || i AS id, ${wide(of)} FROM range(3) t(i)`;
    delivered(await table.subject.run(rows("'a'")));
    const names = Object.keys((await table.metadata()).properties ?? {}).filter((name) => name.startsWith('cdsync.'));
    expect(names.length).toBeGreaterThan(3);
    delivered(await table.subject.run(rows("'b'")));
    await table.delivers('nothing');
    await table.subject.close();
  });

  it('names the table that the stream had before', async () => {
    const table = await Shared.open();
    delivered(await table.subject.run(before));
    table.subject.destination = { table: 'others' };
    const destination = await table.subject.openDestination();
    try {
      const { own, former } = await destination.state({ destination: 'target', stream: 'people', table: 'others' });
      expect([own, former.map(({ table: name }) => name)]).toEqual([undefined, ['people']]);
    } finally {
      await destination.close();
    }
    await table.subject.close();
  });

  it('and its table begin again together (--recreate)', async () => {
    const table = await Shared.open();
    delivered(await table.subject.run(before));
    await table.addColumn('note');
    const { 'table-uuid': uuid } = await table.metadata();
    const recreate = { recreate: true } as object;
    expect(delivered(await table.subject.push(recreate)).action).toBe('create');
    expect((await table.metadata())['table-uuid']).not.toBe(uuid);
    expect([...((await table.subject.place.rows('people'))[0]?.keys() ?? [])]).not.toContain('note');
    await table.delivers('nothing');
    await table.subject.close();
  });
});

describe.runIf(catalog)('rows of an Iceberg table', () => {
  async function driver(options: Record<string, unknown> = {}) {
    const place = await icebergPlace(catalog as IcebergCatalog, { extensions: extensions ?? '', options });
    return { place, driver: await LoadDriver.open(iceberg, place.options) };
  }
  const row = (op: string, id: string, name: string) => `SELECT '${op}' AS _op, '${id}' AS id, '${name}' AS name`;

  it('that are erased are gone, and columns that are cleared are empty in all old rows of a log', async () => {
    const { place, driver: log } = await driver({ format_version: 3 });
    const insert = (id: string, name: string) =>
      `SELECT 'insert' AS _op, 'r' AS _run_id, '${id}' AS id, '${name}' AS name`;
    const all = (from: number, to: number) =>
      `SELECT 'insert' AS _op, 'r' AS _run_id, 'p' || i AS id, 'n' || i AS name FROM range(${from}, ${to}) t(i)`;
    const key = ['id'];
    await log.load({ table: 'people', query: all(0, 10), sequence: 1, key });
    await log.load({
      table: 'people',
      query: insert('p10', 'x'),
      sequence: 2,
      key,
      erase: [['p3'], ['p4'], ['p99']],
    });
    expect(column(await place.rows('people'), 'id')).toEqual(['p0', 'p1', 'p10', 'p2', 'p5', 'p6', 'p7', 'p8', 'p9']);
    await log.load({ table: 'people', query: insert('p11', 'y'), sequence: 3, key, erase: [['p5']], clear: ['name'] });
    const rows = await place.rows('people');
    expect(rows).toHaveLength(9);
    expect(rows.flatMap((each) => each.get('name') ?? [])).toEqual(['y']);
    await log.close();
  });

  it('that a reload lacks stay, are marked, or go', async () => {
    for (const absent of ['keep', 'mark', 'delete'] as const) {
      const { place, driver: table } = await driver({ partition_by: ['bucket(id, 2)'] });
      const deleted = 'NULL::TIMESTAMPTZ AS _deleted_at';
      const rows = `SELECT 'p' || i AS id, 'n' || i AS name, ${deleted} FROM range(5) t(i)`;
      const action = { type: 'merge', absent } as const;
      await table.load({ table: 'people', query: rows, sequence: 1, key: ['id'], action });
      const query = `SELECT *, ${deleted} FROM (${row('upsert', 'p1', 'changed')})`;
      await table.load({ table: 'people', query, sequence: 2, key: ['id'], action, erase: [['p4']] });
      const found = (await place.rows('people')).map((each) => [each.get('id'), each.get('_deleted_at') === null]);
      const others = ['p0', 'p2', 'p3'].map((id) => [id, absent === 'keep']);
      const expected = absent === 'delete' ? [['p1', true]] : [...others, ['p1', true]];
      expect([absent, found.sort()]).toEqual([absent, expected.sort()]);
      await table.close();
    }
  });
});
