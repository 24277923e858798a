import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { fileText, sqlText } from '../core/sql.js';
import { rowKey } from '../rows/row-hash.js';
import type { OutgoingRecord } from '../sdk/destination.js';
import type { Row, Session } from '../store/duckdb.js';
import { syncFile, syncFolder } from '../store/durable.js';
import type { Feed } from '../store/feed.js';
import { readStateFile, type StateFile, writeStateFile } from '../store/state-file.js';
import { Acknowledgements } from './acknowledgements.js';
import type { Piece } from './input.js';

const markSchema = z.object({
  version: z.literal(1),
  store_id: z.string(),
  /** The commit that the destination has once all records are acknowledged. */
  sequence: z.number(),
  definition: z.string(),
  records: z.number(),
  files: z.array(z.string()),
});
type Mark = z.infer<typeof markSchema>;

const watermarkSchema = z.object({
  version: z.literal(1),
  store_id: z.string(),
  sequence: z.number(),
  definition: z.string(),
  delivered_at: z.string(),
});
/** How far a stream has been delivered to a destination that cannot store a watermark. */
export type LocalWatermark = z.infer<typeof watermarkSchema>;

/** A record and its place in the outbox. */
export interface StoredRecord extends OutgoingRecord {
  readonly offset: number;
  readonly sequence: number;
  readonly runId: string;
}

const hint =
  'restore it; or remove its folder, then start from here with cdsync push --adopt, or send everything with cdsync push --full';
const markFile: StateFile<Mark> = { schema: markSchema, hint };
const watermarkFile: StateFile<LocalWatermark> = { schema: watermarkSchema, hint };

/** What goes into an outbox. */
export interface OutboxContent {
  readonly feed: Feed;
  readonly pieces: readonly Piece[];
  /** SQL for each value of a record, and its name there. */
  readonly columns: readonly { readonly value: string; readonly as: string }[];
  readonly definition: string;
}

/** SQL that makes one record of each row, with the given columns as members. */
function recordsSql(
  feed: Feed,
  columns: readonly { readonly value: string; readonly as: string }[],
  rows: string,
): string {
  const key = rowKey(feed.key);
  const id = `md5(concat_ws(chr(10), ${sqlText(feed.store_id)}, ${sqlText(feed.stream)}, ${key}, _sequence::VARCHAR))`;
  const members = columns.map(({ value, as }) => `${sqlText(as)}: ${value}`);
  const json = `to_json({${members.join(', ')}})::VARCHAR`;
  const moment = `strftime(_synced_at, '%Y-%m-%dT%H:%M:%S.%gZ')`;
  return `SELECT _sequence AS sequence, ${id} AS id, _op AS op, ${key} AS key, ${json} AS json, ${moment} AS synced_at,
    _run_id AS run_id FROM (${rows})`;
}

/**
 * The records of one delivery, in a fixed order. They stay on the disk until all are acknowledged. After a crash, the next
 * delivery sends those without an acknowledgement again, with the same ids.
 */
export class Outbox {
  readonly mark: Mark;
  readonly acknowledged: Acknowledgements;
  readonly #session: Session;
  readonly #folder: string;

  private constructor(session: Session, folder: string, mark: Mark, acknowledged: Acknowledgements) {
    this.#session = session;
    this.#folder = folder;
    this.mark = mark;
    this.acknowledged = acknowledged;
  }

  /** Opens the outbox that an earlier delivery left; undefined if there is none. */
  static async left(session: Session, folder: string): Promise<Outbox | undefined> {
    const mark = await readStateFile(join(folder, 'outbox.json'), markFile);
    if (mark === undefined) return undefined;
    return new Outbox(session, folder, mark, await Acknowledgements.open(join(folder, 'acknowledged.jsonl')));
  }

  /** Writes an outbox. Its last step writes the mark; an outbox without a mark does not count. */
  static async fill(
    session: Session,
    folder: string,
    { feed, pieces, columns, definition }: OutboxContent,
  ): Promise<Outbox> {
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const files: string[] = [];
    let records = 0;
    for (const [index, { query }] of pieces.entries()) {
      const name = `${String(index + 1).padStart(5, '0')}.parquet`;
      const rows = `SELECT (${records} + row_number() OVER () - 1)::BIGINT AS "offset", * FROM (${recordsSql(feed, columns, query)})`;
      const path = join(folder, name);
      records += await session.number(
        `COPY (${rows}) TO ${sqlText(path)} (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)`,
      );
      await syncFile(path);
      files.push(name);
    }
    await syncFolder(folder);
    const mark: Mark = {
      version: 1,
      store_id: feed.store_id,
      sequence: feed.sequence,
      definition,
      records,
      files,
    };
    await writeStateFile(join(folder, 'outbox.json'), mark);
    return new Outbox(session, folder, mark, await Acknowledgements.open(join(folder, 'acknowledged.jsonl')));
  }

  /** The records without an acknowledgement, those of earlier commits first. */
  async *records(stream: string): AsyncGenerator<StoredRecord> {
    for (const name of this.mark.files) {
      const rows = this.#session.stream(
        `SELECT "offset", sequence, id, op, key, json, synced_at, run_id FROM read_parquet(${fileText(join(this.#folder, name))})`,
      );
      for await (const row of rows) {
        const record = outgoing(row, stream);
        if (!this.acknowledged.has(record.offset)) yield record;
      }
    }
  }

  async close(): Promise<void> {
    await this.acknowledged.close();
  }
}

function outgoing(row: Row, stream: string): StoredRecord {
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
  };
}

/** How many records of an outbox are acknowledged, without opening it; undefined if there is none. */
export async function outboxProgress(folder: string): Promise<{ records: number; acknowledged: number } | undefined> {
  const mark = await readStateFile(join(folder, 'outbox.json'), markFile);
  if (mark === undefined) return undefined;
  return { records: mark.records, acknowledged: await Acknowledgements.count(join(folder, 'acknowledged.jsonl')) };
}

/** The watermark in a folder; undefined if nothing was delivered yet. */
export function readLocalWatermark(folder: string): Promise<LocalWatermark | undefined> {
  return readStateFile(join(folder, 'watermark.json'), watermarkFile);
}

/** Moves the watermark. The outbox is no longer needed then. */
export async function moveLocalWatermark(folder: string, watermark: LocalWatermark): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeStateFile(join(folder, 'watermark.json'), watermark);
}
