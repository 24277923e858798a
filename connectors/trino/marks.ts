import {
  type TrinoSession,
  trinoFailureName,
  trinoIdentifier,
  trinoText,
  type Watermark,
  watermarkColumns,
  watermarkFrom,
  watermarkMoved,
} from '../../src/sdk/former/index.js';

/** Columns that cdsync adds to the table of watermarks. */
const number = trinoIdentifier('_cdsync_number');
const pending = trinoIdentifier('_cdsync_pending');

/** A load that inserts rows, written down before its INSERT: whether that was committed shows in the table. */
export interface Pending {
  /** What the rows have in their column `_cdsync_load`. */
  readonly load: string;
  /** The watermark that belongs to the rows. */
  readonly after: Watermark;
}

/** What the table of watermarks says of one stream of one destination. */
export interface Mark {
  readonly destination: string;
  readonly stream: string;
  /** Undefined before the first load is complete. */
  readonly watermark: Watermark | undefined;
  readonly pending: Pending | undefined;
  /** One more with each change: of two rows, the higher counts. */
  readonly number: number;
}

function markFrom(row: Readonly<Record<string, unknown>>): Mark {
  return {
    destination: String(row.destination),
    stream: String(row.stream),
    watermark: row.sequence === null ? undefined : watermarkFrom(row),
    pending: row._cdsync_pending === null ? undefined : (JSON.parse(String(row._cdsync_pending)) as Pending),
    number: Number(row._cdsync_number),
  };
}

/** The mark of each stream. A catalog without UPDATE keeps the earlier ones too. */
export function latest(marks: readonly Mark[]): Mark[] {
  const found = new Map<string, Mark>();
  for (const mark of marks) {
    const key = JSON.stringify([mark.destination, mark.stream]);
    if ((found.get(key)?.number ?? 0) <= mark.number) found.set(key, mark);
  }
  return [...found.values()];
}

/** The values of a mark as SQL, by column. */
function valuesOf({ destination, stream, watermark, pending: open, number: count }: Mark): [string, string][] {
  const text = (value: string | undefined) => (value === undefined ? 'CAST(NULL AS varchar)' : trinoText(value));
  const { table, storeId, sequence, definition, deliveredAt } = watermark ?? {};
  const given = [
    ...[text(destination), text(stream), text(table), text(storeId)],
    sequence === undefined ? 'CAST(NULL AS bigint)' : `BIGINT '${sequence}'`,
    ...[text(definition), text(deliveredAt)],
  ];
  return [
    ...watermarkColumns.map((name, index): [string, string] => [trinoIdentifier(name), given[index] as string]),
    [number, `BIGINT '${count}'`],
    [pending, text(open === undefined ? undefined : JSON.stringify(open))],
  ];
}

/** The table of watermarks. */
export class Marks {
  readonly #session: TrinoSession;
  readonly #table: string;

  /** @param table SQL of its name */
  constructor(session: TrinoSession, table: string) {
    this.#session = session;
    this.#table = table;
  }

  async create(): Promise<void> {
    const columns = watermarkColumns.map(
      (name) => `${trinoIdentifier(name)} ${name === 'sequence' ? 'bigint' : 'varchar'}`,
    );
    await this.#session.run(
      `CREATE TABLE IF NOT EXISTS ${this.#table} (${columns.join(', ')}, ${number} bigint, ${pending} varchar)`,
    );
  }

  async all(): Promise<Mark[]> {
    return latest((await this.#session.rows(`SELECT * FROM ${this.#table}`)).map(markFrom));
  }

  /**
   * Puts a mark in the place of the one that was read.
   * @throws {CdsyncError} `watermark_moved` if another delivery has changed it since
   */
  async move(from: Mark | undefined, to: Omit<Mark, 'number'>): Promise<Mark> {
    const mark = { ...to, number: (from?.number ?? 0) + 1 };
    if (from === undefined || !(await this.#updated(from, mark))) await this.#insert(mark);
    return mark;
  }

  async #insert(mark: Mark): Promise<void> {
    const values = valuesOf(mark);
    const names = values.map(([name]) => name).join(', ');
    await this.#session.run(
      `INSERT INTO ${this.#table} (${names}) SELECT ${values.map(([, value]) => value).join(', ')}`,
    );
  }

  /** @returns false if the catalog has no UPDATE */
  async #updated(from: Mark, mark: Mark): Promise<boolean> {
    const { destination, stream } = mark;
    const set = valuesOf(mark)
      .slice(2)
      .map(([name, value]) => `${name} = ${value}`);
    try {
      const { updateCount } = await this.#session.run(
        `UPDATE ${this.#table} SET ${set.join(', ')} WHERE "destination" = ${trinoText(destination)}
         AND "stream" = ${trinoText(stream)} AND ${number} = ${from.number}`,
      );
      if (updateCount === 0) throw watermarkMoved(stream);
      return true;
    } catch (error) {
      if (trinoFailureName(error) !== 'NOT_SUPPORTED') throw error;
      return false;
    }
  }
}
