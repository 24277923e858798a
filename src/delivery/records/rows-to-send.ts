import { ColumnSet } from '../../columns/columns.js';
import { rowKey } from '../../columns/row-hash.js';
import { internalName, quoteIdentifier, sqlText, sqlTexts } from '../../core/sql.js';
import type { Mode, OutgoingRecord } from '../../sdk/destination.js';
import type { Feed } from '../../snapshot/feed.js';
import type { Session } from '../../storage/duckdb.js';
import { type DeliveryInput, sequenceColumn } from '../input.js';
import type { StoredOutbox } from './outbox.js';

const [keyColumn, opColumn] = [internalName('key'), internalName('op')];
const [runColumn, mayExistColumn] = [internalName('run'), internalName('may_exist')];
const wantedColumns = [keyColumn, opColumn, runColumn, mayExistColumn].join(', ');
const wantedTable = internalName('wanted');
const unsentTable = internalName('unsent');

/** A key whose present row, or whose delete, must be sent although no change says so. */
export interface WantedKey {
  readonly key: string;
  /** How a record of it was, or would have been, sent. */
  readonly op: OutgoingRecord['op'];
  readonly runId: string;
  /** Whether the destination may have the row. */
  readonly mayExistThere: boolean;
}

/** Which rows a delivery of records sends. */
export interface Selection {
  /** The changes after this snapshot; undefined: all rows. */
  readonly since: number | undefined;
  /** With all rows, the deletes after this snapshot come too. */
  readonly deletesSince?: number | undefined;
  /** An outbox that is made again, and whether it is of another storage folder: see `planOutbox`. */
  readonly again?: { readonly outbox: StoredOutbox; readonly isForeign: boolean } | undefined;
  /** Refused earlier. A record that was refused, and whose change is not among the others, is sent as it is now. */
  readonly refused: readonly WantedKey[];
  /** Erased since: the destination gets a delete. */
  readonly erased: readonly WantedKey[];
  /** Whether every image is the present one: those of changes were made by other rules. */
  readonly isPresent: boolean;
}

interface SelectTask {
  readonly session: Session;
  readonly input: DeliveryInput;
  readonly feed: Feed;
  readonly mode: Mode;
}

/** SQL for the columns of a row that has only its key. */
function keyOnly({ columns, key }: Feed, text: string): string {
  const ofKey = (name: string) =>
    key.length === 1 ? text : `json_extract_string(${text}, ${sqlText(`$[${key.indexOf(name)}]`)})`;
  return ColumnSet.restore(columns)
    .list.map(
      ({ name, type }) =>
        `${key.includes(name) ? `${ofKey(name)}::${type}` : `NULL::${type}`} AS ${quoteIdentifier(name)}`,
    )
    .join(', ');
}

/** Selects the rows that a delivery of records sends. */
export class RowsToSend {
  readonly #task: SelectTask;
  readonly #selection: Selection;
  /** SQL for the key of a row. */
  readonly #key: string;

  constructor(task: SelectTask, selection: Selection) {
    this.#task = task;
    this.#selection = selection;
    this.#key = rowKey(task.feed.key);
  }

  /** Queries like those of {@link LoadChunk}. They read temporary tables of the session. */
  async queries(): Promise<string[]> {
    const changes = await this.#changes();
    await this.#createTables();
    for (const keys of this.#wantedKeys(changes)) await this.#want(keys);
    const sentChanges = [...(await this.#sendable(changes)), ...(await this.#deletesSince())];
    if (await this.#isEmpty(`FROM ${wantedTable}`)) return sentChanges;
    await this.#removeSent(sentChanges);
    const wantedRows = await this.#wantedRows();
    const wantedDeletes = await this.#wantedDeletes(sentChanges);
    return [...wantedRows, ...wantedDeletes, ...sentChanges];
  }

  async #changes(): Promise<string[]> {
    const { input, mode } = this.#task;
    const { since } = this.#selection;
    const chunks = since === undefined ? await input.everything() : await input.changes(since, mode);
    return chunks.map(({ query }) => query);
  }

  /** The changes that are sent. */
  async #sendable(changes: readonly string[]): Promise<string[]> {
    const filter = await this.#filter();
    return changes.map((query) =>
      this.#insertsAsUpdates(filter === undefined ? query : `SELECT * FROM (${query}) WHERE ${filter}`),
    );
  }

  /** A row that an outbox of another storage folder has sent is not new to the destination: its insert is an update there. */
  #insertsAsUpdates(query: string): string {
    const { again } = this.#selection;
    if (!again?.isForeign) return query;
    const { outbox } = again;
    const mayExistThere = `${this.#key} IN (${outbox.sentKeys()}) AND ${this.#key} NOT IN
      (SELECT key FROM (${outbox.sent()}) WHERE op = 'delete' AND key IS NOT NULL)`;
    return `SELECT * REPLACE (CASE WHEN _op = 'insert' AND ${mayExistThere} THEN 'update' ELSE _op END AS _op) FROM (${query})`;
  }

  async #deletesSince(): Promise<string[]> {
    const { deletesSince } = this.#selection;
    if (deletesSince === undefined || this.#task.mode === 'upsert') return [];
    const changes = await this.#task.input.changes(deletesSince, 'mirror');
    const isGone = `_op = 'delete' AND ${this.#key} NOT IN (${await this.#presentKeys()})`;
    return changes.map(({ query }) => `SELECT * FROM (${query}) WHERE ${isGone}`);
  }

  /** A table of wanted keys, and one of the keys that a left-over outbox did not send. */
  async #createTables(): Promise<void> {
    const { session, feed } = this.#task;
    const { again } = this.#selection;
    for (const table of [wantedTable, unsentTable])
      await session.run(
        `CREATE OR REPLACE TEMP TABLE ${table} (${keyColumn} VARCHAR, ${opColumn} VARCHAR, ${runColumn} VARCHAR, ${mayExistColumn} BOOLEAN)`,
      );
    if (again === undefined) return;
    // One that was sent may have arrived although its acknowledgement did not.
    // Under the id of a change of another folder, a receiver may know other values.
    const run = again.isForeign ? sqlText(feed.run_id) : 'run_id';
    const unsent = `SELECT DISTINCT ON (key) key, op, ${run}, true FROM (${again.outbox.unsent()}) WHERE key IS NOT NULL ORDER BY "offset"`;
    await session.run(`INSERT INTO ${unsentTable} ${unsent}`);
  }

  /** SQL for the keys that must be sent although no change says so, by reason. Of a key, the first reason counts. */
  #wantedKeys(changes: readonly string[]): string[] {
    const { again, refused, erased, isPresent } = this.#selection;
    const changed = `SELECT ${this.#key} AS k, arg_min(_op, ${sequenceColumn}), arg_max(_run_id, ${sequenceColumn}), true
      FROM (${allOf(changes)}) WHERE ${this.#key} IS NOT NULL GROUP BY k HAVING bool_or(_op <> 'delete')`;
    const runId = sqlText(this.#task.feed.run_id);
    return [
      ...(again === undefined ? [] : [`FROM ${unsentTable}`]),
      ...(isPresent && changes.length > 0 ? [changed] : []),
      ...(again?.isForeign ? [`SELECT key, 'update', ${runId}, true FROM (${again.outbox.storedKeys()})`] : []),
      ...[refused, erased].filter((keys) => keys.length > 0).map(listed),
    ];
  }

  async #want(rows: string): Promise<void> {
    await this.#task.session.run(
      `INSERT INTO ${wantedTable} SELECT DISTINCT ON (${keyColumn}) * FROM (${rows}) AS t(${wantedColumns})
         WHERE ${keyColumn} NOT IN (SELECT ${keyColumn} FROM ${wantedTable})`,
    );
  }

  /** Which of the changes are sent; undefined: all. */
  async #filter(): Promise<string | undefined> {
    const { again, isPresent } = this.#selection;
    const conditions: string[] = [];
    if (again !== undefined) {
      // Of a key that was not sent, the present row counts, or that it is gone.
      const isGone = `(_op = 'delete' AND ${this.#key} NOT IN (${await this.#presentKeys()}))`;
      const isSent = `${this.#key} NOT IN (SELECT ${keyColumn} FROM ${unsentTable})`;
      conditions.push(`coalesce(${isSent} OR ${isGone}, true)`);
    }
    if (isPresent) conditions.push(`_op = 'delete'`);
    return conditions.length === 0 ? undefined : conditions.map((condition) => `(${condition})`).join(' AND ');
  }

  /** SQL for the rows of the snapshot; empty if it has none. */
  async #presentRows(): Promise<string> {
    return allOf((await this.#task.input.everything()).map(({ query }) => query));
  }

  /** SQL for the keys of the snapshot. */
  async #presentKeys(): Promise<string> {
    const rows = await this.#presentRows();
    if (rows === '') return "SELECT '' WHERE false";
    return `SELECT ${this.#key} FROM (${rows}) WHERE ${this.#key} IS NOT NULL`;
  }

  /** Keys whose row is sent anyway are wanted no longer. */
  async #removeSent(sent: readonly string[]): Promise<void> {
    if (sent.length === 0) return;
    await this.#task.session.run(`DELETE FROM ${wantedTable} WHERE ${keyColumn} IN (${this.#keysOf(sent, '<>')})`);
  }

  /** The present rows of wanted keys. */
  async #wantedRows(): Promise<string[]> {
    const rows = await this.#presentRows();
    if (rows === '') return [];
    return [
      `SELECT * EXCLUDE (${wantedColumns})
        REPLACE (CASE ${opColumn} WHEN 'insert' THEN 'insert' ELSE 'update' END AS _op, ${runColumn} AS _run_id)
        FROM (${rows}) JOIN ${wantedTable} ON ${keyColumn} = ${this.#key}`,
    ];
  }

  /** Deletes of wanted keys that the destination may have, and the snapshot lacks. */
  async #wantedDeletes(sent: readonly string[]): Promise<string[]> {
    if (this.#task.mode === 'upsert') return [];
    const isDeleted = sent.length === 0 ? 'false' : `${keyColumn} IN (${this.#keysOf(sent, '=')})`;
    const gone = `SELECT * FROM ${wantedTable} WHERE ${mayExistColumn}
      AND ${keyColumn} NOT IN (${await this.#presentKeys()}) AND NOT ${isDeleted}`;
    return (await this.#isEmpty(gone)) ? [] : [await this.#deletes(gone)];
  }

  /** SQL for the keys that queries delete (`=`), or whose rows they have (`<>`). */
  #keysOf(queries: readonly string[], comparison: '=' | '<>'): string {
    return `SELECT ${this.#key} FROM (${allOf(queries)}) WHERE ${this.#key} IS NOT NULL AND _op ${comparison} 'delete'`;
  }

  async #isEmpty(rows: string): Promise<boolean> {
    return (await this.#task.session.number(`SELECT count(*) FROM (${rows})`)) === 0;
  }

  /** A query for deletes: the last image, if the feed still has it, else the key alone. */
  async #deletes(gone: string): Promise<string> {
    const { feed, input } = this.#task;
    const names = ColumnSet.restore(feed.columns).list.map(({ name }) => quoteIdentifier(name));
    const stamp = `'delete' AS _op, ${runColumn} AS _run_id, ${sqlText(feed.synced_at)}::TIMESTAMPTZ AS _synced_at,
      ${feed.sequence}::BIGINT AS ${sequenceColumn}`;
    const bare = `SELECT ${stamp}, ${keyOnly(feed, keyColumn)} FROM (${gone})`;
    const changes = allOf((await input.changes(0, 'append')).map(({ query }) => query));
    if (changes === '') return bare;
    const last = `SELECT DISTINCT ON (${this.#key}) * FROM (${changes}) WHERE _op = 'delete' ORDER BY ${sequenceColumn} DESC`;
    const images = `SELECT ${stamp}, ${names.join(', ')} FROM (${last}) JOIN (${gone}) ON ${keyColumn} = ${this.#key}`;
    return `SELECT * FROM (${images}) UNION ALL BY NAME SELECT * FROM (${bare})
      WHERE ${this.#key} NOT IN (SELECT ${this.#key} FROM (${images}))`;
  }
}

/** SQL for keys that are listed one by one. */
function listed(keys: readonly WantedKey[]): string {
  const texts = [keys.map(({ key }) => key), keys.map(({ op }) => op), keys.map(({ runId }) => runId)].map(sqlTexts);
  const mayExist = `[${keys.map(({ mayExistThere }) => mayExistThere).join(', ')}]`;
  return `SELECT ${[...texts, mayExist].map((list) => `unnest(${list})`).join(', ')}`;
}

function allOf(queries: readonly string[]): string {
  return queries.map((query) => `(${query})`).join(' UNION ALL BY NAME ');
}
