import { randomBytes } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { rowKey } from '../../columns/row-hash.js';
import { readStateFile, type StateFile, sha256OfFile, writeStateFile } from '../../core/durable.js';
import { CdsyncError } from '../../core/errors.js';
import { fileText, fileTexts, sqlText, sqlTexts } from '../../core/sql.js';
import { storedName } from '../../core/stored-texts.js';
import { z } from '../../core/zod.js';
import type { OutgoingRecord } from '../../sdk/destination.js';
import { type JsonMember, objectText } from '../../sdk/json-text.js';
import type { Feed } from '../../snapshot/feed.js';
import type { Row, Session } from '../../storage/duckdb.js';
import { type ParquetForm, writeParquet } from '../../storage/parquet.js';
import { namesIn } from '../../storage/storage.js';
import { sequenceColumn } from '../input.js';
import { Acknowledgements } from './acknowledgements.js';
import { contentSchema, recordStateHint } from './position.js';

/** Outboxes of earlier builds have names alone. */
const fileSchema = z.union([
  z.object({ name: storedName, sha256: z.string().optional() }),
  storedName.transform((name): { name: string; sha256?: string } => ({ name })),
]);
type OutboxFile = z.infer<typeof fileSchema>;

const markSchema = z.object({
  version: z.literal(1),
  ...contentSchema.shape,
  records: z.number(),
  files: z.array(fileSchema),
  /** The file of the keys whose records were sent from outboxes that this one has taken the place of. */
  sent: fileSchema.nullable(),
});
type Mark = z.infer<typeof markSchema>;

const form: ParquetForm = { compression: 'zstd' };

/** The content of an outbox. */
export type OutboxContent = z.infer<typeof contentSchema>;

const markName = 'outbox.json';
const markFile: StateFile<Mark> = { schema: markSchema, hint: recordStateHint };

/** A record and its place in the outbox. */
export interface StoredRecord extends OutgoingRecord {
  readonly offset: number;
  readonly sequence: number;
  readonly runId: string;
}

/** The parts of a new outbox. */
interface Filling {
  readonly feed: Feed;
  /** The rows to send, in order: see {@link LoadChunk}. */
  readonly queries: readonly string[];
  /** The columns in a record. */
  readonly members: readonly JsonMember[];
  readonly content: OutboxContent;
  /** The outbox that this one takes the place of. */
  readonly replaces?: StoredOutbox | undefined;
}

/** How the run of a delete that an erasure asks for begins. */
export const erasureRun = 'erasure-';

/** SQL for the id of a change: the same each time that it is sent. */
function recordId(feed: Feed): string {
  const parts = [sqlText(feed.store_id), sqlText(feed.stream), '_run_id', rowKey(feed.key), '_op'];
  return `md5(concat_ws(chr(10), ${parts.join(', ')}))`;
}

/** SQL that makes one record of each row. */
export function recordsSql(feed: Feed, members: readonly JsonMember[], rows: string): string {
  const json = members.length === 0 ? "'{}'" : objectText(members);
  const moment = `strftime(_synced_at, '%Y-%m-%dT%H:%M:%S.%gZ')`;
  return `SELECT ${sequenceColumn} AS sequence, ${recordId(feed)} AS id, _op AS op, ${rowKey(feed.key)} AS key, ${json} AS json,
    ${moment} AS synced_at, _run_id AS run_id FROM (${rows})`;
}

/** The folders of outboxes in a folder, the newest first. */
async function numbers(folder: string): Promise<number[]> {
  const names = await namesIn(folder);
  return names
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .sort((one, other) => other - one);
}

async function newest(folder: string): Promise<{ path: string; mark: Mark } | undefined> {
  for (const number of await numbers(folder)) {
    const path = join(folder, String(number));
    const mark = await readStateFile(join(path, markName), markFile);
    if (mark !== undefined) return { path, mark };
  }
  return undefined;
}

/** The files of an outbox, as SQL. */
export class StoredOutbox {
  readonly mark: Mark;
  readonly #path: string;

  protected constructor(path: string, mark: Mark) {
    this.#path = path;
    this.mark = mark;
  }

  /** The outbox that an earlier delivery left, without changing it; undefined if there is none. @throws {CdsyncError} `state_unreadable` */
  static async openReadOnly(folder: string): Promise<StoredOutbox | undefined> {
    const latest = await newest(folder);
    return latest && new StoredOutbox(latest.path, latest.mark);
  }

  protected pathOf(name: string): string {
    return join(this.#path, name);
  }

  protected file(name: string): string {
    return fileText(this.pathOf(name));
  }

  /**
   * Compares its files with their checksums: DuckDB reads an altered value of a Parquet file without an error. Call it before anything
   * of this outbox is sent or made again.
   * @throws {CdsyncError} `state_unreadable`
   */
  async assertWhole(): Promise<void> {
    const { files, sent } = this.mark;
    for (const { name, sha256 } of sent === null ? files : [...files, sent]) {
      const path = join(this.#path, name);
      if (sha256 === undefined || (await sha256OfFile(path)) === sha256) continue;
      throw new CdsyncError(`${path} is damaged: its checksum is not the one that was noted when it was written`, {
        code: 'state_unreadable',
        hint: recordStateHint,
      });
    }
  }

  /** Writes its files without these keys and their records, under other names, which the mark has before the old ones go. */
  async erase(session: Session, keys: readonly string[]): Promise<void> {
    await this.assertWhole();
    const isErased = `key IN (SELECT unnest(${sqlTexts(keys)}))`;
    const empty = `SELECT * REPLACE (CASE WHEN ${isErased} THEN NULL ELSE key END AS key, CASE WHEN ${isErased} THEN '{}' ELSE json END AS json)`;
    const without = async (file: OutboxFile, select: string, where = ''): Promise<OutboxFile> => {
      const rows = `FROM read_parquet(${this.file(file.name)})`;
      if ((await session.number(`SELECT count(*) ${rows} WHERE ${isErased}`)) === 0) return file;
      const name = `${randomBytes(4).toString('hex')}.parquet`;
      const { sha256 } = await writeParquet(session, `${select} ${rows} ${where}`, join(this.#path, name), form);
      return { name, sha256 };
    };
    const files: OutboxFile[] = [];
    for (const file of this.mark.files) files.push(await without(file, empty));
    const { sent } = this.mark;
    const mark = { ...this.mark, files, sent: sent && (await without(sent, 'SELECT *', `WHERE NOT ${isErased}`)) };
    await writeStateFile(join(this.#path, markName), mark);
    const kept = new Set([...files, mark.sent].map((file) => file?.name));
    for (const name of await namesIn(this.#path))
      if (name.endsWith('.parquet') && !kept.has(name)) await rm(join(this.#path, name));
    await Acknowledgements.erase(join(this.#path, 'acknowledged.jsonl'), new Set(keys));
  }

  /** SQL for its records: `offset`, `id`, `op`, `key`, `run_id`. */
  stored(): string {
    if (this.mark.files.length === 0)
      return `SELECT 0::BIGINT AS "offset", '' AS id, '' AS op, '' AS key, '' AS run_id WHERE false`;
    const files = fileTexts(this.mark.files.map(({ name }) => join(this.#path, name)));
    return `SELECT "offset", id, op, key, run_id FROM read_parquet(${files})`;
  }

  /** SQL for those of them that the destination has taken. */
  sent(): string {
    return `SELECT * FROM (${this.stored()}) WHERE "offset" IN (SELECT unnest(range(first, last))
      FROM (SELECT done[1] AS first, done[2] AS last FROM ${this.#lines()} WHERE done IS NOT NULL))`;
  }

  /** SQL for the others: those that were not sent, and those that were refused. */
  unsent(): string {
    return `SELECT * FROM (${this.stored()}) WHERE "offset" NOT IN (SELECT "offset" FROM (${this.sent()}))`;
  }

  /** SQL for the first of those, with their values. */
  firstUnsent(count: number): string {
    if (this.mark.files.length === 0) return `SELECT * FROM (${this.stored()})`;
    const files = fileTexts(this.mark.files.map(({ name }) => join(this.#path, name)));
    return `SELECT * FROM read_parquet(${files}) WHERE "offset" IN (SELECT "offset" FROM (${this.unsent()}))
      ORDER BY sequence, op <> 'delete', "offset" LIMIT ${count}`;
  }

  /** SQL for the keys of its records, and of those that outboxes before it have sent. */
  storedKeys(): string {
    return this.#keys(this.stored());
  }

  /** SQL for the keys of records that were sent, also from outboxes that it has taken the place of. */
  sentKeys(): string {
    return this.#keys(this.sent());
  }

  #keys(name: string): string {
    const { sent } = this.mark;
    const before = sent === null ? '' : ` UNION ALL SELECT key FROM read_parquet(${this.file(sent.name)})`;
    return `SELECT DISTINCT key FROM (SELECT key FROM (${name})${before}) WHERE key IS NOT NULL`;
  }

  /** The acknowledgements; a last line that a crash tore does not count. */
  #lines(): string {
    const columns = "{'done': 'BIGINT[]', 'refused': 'BIGINT'}";
    return `read_json(${this.file('acknowledged.jsonl')}, format = 'newline_delimited', columns = ${columns}, ignore_errors = true)`;
  }
}

/**
 * The records of one delivery, in a fixed order. They stay on the disk until all are acknowledged. After a crash, the next
 * delivery sends those without an acknowledgement again, with the same ids. One that is made again lies beside the one before until
 * its last file is written, so that no acknowledgement is lost.
 */
export class Outbox extends StoredOutbox {
  readonly acknowledged: Acknowledgements;
  readonly #session: Session;

  private constructor(session: Session, path: string, mark: Mark, acknowledged: Acknowledgements) {
    super(path, mark);
    this.#session = session;
    this.acknowledged = acknowledged;
  }

  /** Opens the outbox that an earlier delivery left; undefined if there is none. @throws {CdsyncError} `state_unreadable` */
  static async left(session: Session, folder: string): Promise<Outbox | undefined> {
    const latest = await newest(folder);
    return latest && new Outbox(session, latest.path, latest.mark, await openAcknowledged(latest.path));
  }

  /** Writes an outbox. Its last step writes the mark; an outbox without a mark does not count. */
  static async fill(session: Session, folder: string, filling: Filling): Promise<Outbox> {
    const { feed, queries, members, content, replaces } = filling;
    const number = ((await numbers(folder))[0] ?? 0) + 1;
    const path = join(folder, String(number));
    await mkdir(path, { recursive: true, mode: 0o700 });
    const files: OutboxFile[] = [];
    let records = 0;
    for (const [index, query] of queries.entries()) {
      const name = `${String(index + 1).padStart(5, '0')}.parquet`;
      const rows = `SELECT (${records} + row_number() OVER () - 1)::BIGINT AS "offset", * FROM (${recordsSql(feed, members, query)})`;
      const written = await writeParquet(session, rows, join(path, name), form);
      records += written.rows;
      files.push({ name, sha256: written.sha256 });
    }
    let sent: OutboxFile | null = null;
    if (replaces !== undefined) {
      const { sha256 } = await writeParquet(session, replaces.sentKeys(), join(path, 'sent.parquet'), form);
      sent = { name: 'sent.parquet', sha256 };
    }
    const mark: Mark = { version: 1, ...content, records, files, sent };
    await writeStateFile(join(path, markName), mark);
    // Those before it, and incomplete ones, no longer count.
    for (const other of await numbers(folder))
      if (other !== number) await rm(join(folder, String(other)), { recursive: true, force: true });
    return new Outbox(session, path, mark, await openAcknowledged(path));
  }

  /**
   * The records without an acknowledgement, those of earlier commits first, and the deletes of each before its other records. Many at
   * a time: to wait for each takes longer than to read it.
   */
  async *records(stream: string): AsyncGenerator<readonly StoredRecord[]> {
    if (this.mark.files.length === 0) return;
    const all = `FROM read_parquet(${fileTexts(this.mark.files.map(({ name }) => this.pathOf(name)))})`;
    const parts = await this.#session.rows(
      `SELECT DISTINCT sequence, op = 'delete' AS is_gone ${all} ORDER BY sequence, is_gone DESC`,
    );
    for (const { sequence, is_gone: isGone } of parts) {
      const part =
        parts.length === 1 ? '' : `WHERE sequence = ${sequence} AND op ${isGone === true ? '=' : '<>'} 'delete'`;
      // As one text, which takes half as long to read. The key is last: it alone may have any character.
      const rows = this.#session.texts(
        `SELECT concat_ws(chr(31), "offset", sequence, id, op, synced_at, run_id, json, coalesce(key, 'null')) ${all} ${part}`,
      );
      for await (const texts of rows)
        yield texts.map((text) => unpacked(text, stream)).filter(({ offset }) => !this.acknowledged.has(offset));
    }
  }

  async close(): Promise<void> {
    await this.acknowledged.close();
  }
}

/**
 * Erases keys and their records from the outbox in a folder. The next delivery makes it again before it sends anything.
 * Call it under the destination's lock.
 */
export async function eraseFromOutbox(session: Session, folder: string, keys: readonly string[]): Promise<void> {
  const outbox = await StoredOutbox.openReadOnly(folder);
  await outbox?.erase(session, keys);
}

/** SQL for the keys of the records in a folder's outbox; undefined if there is none. */
export async function outboxKeys(folder: string): Promise<string | undefined> {
  const outbox = await StoredOutbox.openReadOnly(folder);
  return outbox && `SELECT key FROM (${outbox.stored()})`;
}

function openAcknowledged(path: string): Promise<Acknowledgements> {
  return Acknowledgements.open(join(path, 'acknowledged.jsonl'));
}

/** A record of the text that {@link Outbox.records} makes of it. */
function unpacked(text: string, stream: string): StoredRecord {
  let from = 0;
  const next = () => {
    const to = text.indexOf('\x1f', from);
    const part = text.slice(from, to);
    from = to + 1;
    return part;
  };
  const [offset, sequence] = [Number(next()), Number(next())];
  const [id, op, syncedAt, runId, json] = [next(), next(), next(), next(), next()];
  const record = {
    offset,
    sequence,
    id,
    stream,
    op: op as OutgoingRecord['op'],
    key: text.slice(from),
    json,
    syncedAt,
    runId,
  };
  return runId.startsWith(erasureRun) ? { ...record, isErasure: true } : record;
}

export function outgoing(row: Row, stream: string): StoredRecord {
  return {
    offset: Number(row.offset),
    sequence: Number(row.sequence),
    id: String(row.id),
    stream,
    op: row.op as OutgoingRecord['op'],
    key: String(row.key),
    json: String(row.json),
    syncedAt: String(row.synced_at),
    runId: String(row.run_id),
    ...(String(row.run_id).startsWith(erasureRun) ? { isErasure: true } : {}),
  };
}

/** How many records of an outbox are acknowledged, without opening it; undefined if there is none. */
export async function outboxProgress(folder: string): Promise<{ records: number; acknowledged: number } | undefined> {
  const latest = await newest(folder);
  if (latest === undefined) return undefined;
  const acknowledged = await Acknowledgements.count(join(latest.path, 'acknowledged.jsonl'));
  return { records: latest.mark.records, acknowledged };
}
