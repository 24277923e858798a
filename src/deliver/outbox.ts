import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { sqlText } from '../core/sql.js';
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
  /** What has been delivered once the outbox is empty. */
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
/** How far a stream has been delivered to a destination that can store nothing. */
export type LocalWatermark = z.infer<typeof watermarkSchema>;

/** A record, and where it stands in the outbox. */
export interface StoredRecord extends OutgoingRecord {
  readonly offset: number;
  readonly sequence: number;
  readonly runId: string;
}

const hint =
  'restore it; or remove its folder, and say with cdsync push --adopt that nothing of before is to be sent, or with --full that everything is';
const markFile: StateFile<Mark> = { schema: markSchema, hint };
const watermarkFile: StateFile<LocalWatermark> = { schema: watermarkSchema, hint };

/** What an outbox is filled with. */
export interface OutboxContent {
  readonly feed: Feed;
  readonly pieces: readonly Piece[];
  /** SQL for each value of a record, and the name that it gets. */
  readonly columns: readonly { readonly value: string; readonly as: string }[];
  readonly definition: string;
}

/** SQL for one record a row, of rows with the columns that the destination gets under these names. */
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
 * The records of one delivery, in a fixed order, on the disk until each is acknowledged. After a crash the next delivery sends
 * the same records under the same ids, and only those that are not acknowledged yet.
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

  /** The outbox that a delivery before has left; undefined where there is none. */
  static async left(session: Session, folder: string): Promise<Outbox | undefined> {
    const mark = await readStateFile(join(folder, 'outbox.json'), markFile);
    if (mark === undefined) return undefined;
    return new Outbox(session, folder, mark, await Acknowledgements.open(join(folder, 'acknowledged.jsonl')));
  }

  /** Writes an outbox; from its last step on it is there, and before that nothing is. */
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

  /** The records that are not acknowledged, those of earlier commits first. */
  async *records(stream: string): AsyncGenerator<StoredRecord> {
    for (const name of this.mark.files) {
      const rows = this.#session.stream(
        `SELECT "offset", sequence, id, op, key, json, synced_at, run_id FROM read_parquet(${sqlText(join(this.#folder, name))})`,
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

/** How much of an outbox is dealt with, without opening it; undefined where there is none. */
export async function outboxProgress(folder: string): Promise<{ records: number; acknowledged: number } | undefined> {
  const mark = await readStateFile(join(folder, 'outbox.json'), markFile);
  if (mark === undefined) return undefined;
  return { records: mark.records, acknowledged: await Acknowledgements.count(join(folder, 'acknowledged.jsonl')) };
}

/** What was delivered of a stream, as this folder remembers it. */
export function readLocalWatermark(folder: string): Promise<LocalWatermark | undefined> {
  return readStateFile(join(folder, 'watermark.json'), watermarkFile);
}

/** Moves the watermark; from then on the outbox is no longer needed. */
export async function moveLocalWatermark(folder: string, watermark: LocalWatermark): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeStateFile(join(folder, 'watermark.json'), watermark);
}
