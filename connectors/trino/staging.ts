import { createHash } from 'node:crypto';
import {
  countDiffers,
  type DataFile,
  type Load,
  type LoadColumn,
  type TrinoSession,
  trinoNames,
} from '../../src/sdk/former/index.js';
import { type CsvRow, csvRows } from './csv.js';
import { definitions, literalRows, rowText, tablePath } from './statements.js';

/** Room in a statement for what stands around its rows. */
const statementFrame = 8000;

/** Where staging tables are, and how long a statement may be. */
interface StagingPlace {
  readonly catalog: string;
  readonly schema: string;
  readonly statementChars: number;
}

/** The index of the longest value. */
function longest(row: CsvRow): number {
  const lengths = row.map((value) => value?.length ?? 0);
  return lengths.indexOf(Math.max(...lengths));
}

/** The rows of one load, on their way into Trino: in one statement if they fit there, else in a staging table. */
export class Staging {
  readonly #session: TrinoSession;
  readonly #load: Load;
  readonly #table: string;
  readonly #mostChars: number;
  #isMade = false;
  #rows: string[] = [];
  #chars = 0;
  #arrived = 0;

  constructor(session: TrinoSession, load: Load, { catalog, schema, statementChars }: StagingPlace) {
    const { after, table } = load;
    this.#session = session;
    this.#load = load;
    const digits = createHash('sha256')
      .update(JSON.stringify([after.destination, table.name]))
      .digest('hex');
    this.#table = tablePath({ catalog, schema }, `_cdsync_rows_${digits.slice(0, 16)}`);
    // The statement names each column in its frame a few times.
    const perColumn = load.data.columns.reduce(
      (total, { name, targetType }) => total + 12 * name.length + 4 * targetType.length + 80,
      0,
    );
    this.#mostChars = Math.max(statementChars - statementFrame - perColumn, 1000);
  }

  get #columns(): readonly LoadColumn[] {
    return this.#load.data.columns;
  }

  /** Takes in all rows. @returns a query of the rows; it may stand once in a statement */
  async receive(): Promise<string> {
    const { data } = this.#load;
    // Left by a delivery that was killed.
    await this.#session.run(`DROP TABLE IF EXISTS ${this.#table}`);
    for await (const file of data.files()) await this.#file(file);
    if (this.#isMade) await this.#flush();
    if (this.#arrived !== data.handedOver) throw countDiffers('the staging table', data.handedOver, this.#arrived);
    if (!this.#isMade) return literalRows(this.#columns, this.#rows.join(','));
    const staged = await this.#session.number(`SELECT count(*) AS found FROM ${this.#table}`);
    if (staged !== this.#arrived) throw countDiffers('the staging table', this.#arrived, staged);
    return `SELECT ${trinoNames(this.#columns)} FROM ${this.#table}`;
  }

  async #file(file: DataFile): Promise<void> {
    const tooLong: { readonly row: number; readonly column: string | undefined }[] = [];
    let index = 0;
    for await (const row of csvRows(file.path)) {
      index += 1;
      const text = rowText(row, this.#columns);
      if (text.length > this.#mostChars) {
        tooLong.push({ row: index, column: this.#columns[longest(row)]?.name });
        continue;
      }
      if (this.#chars + text.length > this.#mostChars) await this.#flush();
      this.#rows.push(text);
      this.#chars += text.length + 1;
      this.#arrived += 1;
    }
    // From the last: the numbers of those before it stay.
    let rest = file;
    for (const { row, column } of tooLong.reverse())
      rest = await rest.refuse(row, { column, reason: 'longer than a statement of Trino may be (statement_chars)' });
  }

  async #flush(): Promise<void> {
    if (this.#rows.length === 0) return;
    if (!this.#isMade) {
      const columns = this.#columns.map(({ name, targetType: type }) => ({ name, type }));
      await this.#session.run(`CREATE TABLE ${this.#table} (${definitions(columns)})`);
      this.#isMade = true;
    }
    await this.#session.run(
      `INSERT INTO ${this.#table} (${trinoNames(this.#columns)}) ${literalRows(this.#columns, this.#rows.join(','))}`,
    );
    this.#rows = [];
    this.#chars = 0;
  }

  async remove(): Promise<void> {
    if (this.#isMade) await this.#session.tidy(`DROP TABLE IF EXISTS ${this.#table}`);
  }
}
