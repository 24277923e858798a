import { type CsvRow, csvRows, type DataFile, type LoadColumn, quoteIdentifier } from '../../src/sdk/index.js';
import type { TrinoSession } from './client.js';
import { literalRows, rowText } from './statements.js';

/** Characters of a statement besides its rows. */
const statementFrame = 8000;

/** The index of the longest value. */
function longest(row: CsvRow): number {
  const lengths = row.map((value) => value?.length ?? 0);
  return lengths.indexOf(Math.max(...lengths));
}

/** Rows on their way into a table, as many with each INSERT as a statement may hold. */
export class Inserts {
  readonly #trino: TrinoSession;
  readonly #target: string;
  readonly #columns: readonly LoadColumn[];
  readonly #maxChars: number;
  #rows: string[] = [];
  #chars = 0;

  /** @param target SQL of the table's name @param statementChars most characters in a statement */
  constructor(trino: TrinoSession, target: string, columns: readonly LoadColumn[], statementChars: number) {
    this.#trino = trino;
    this.#target = target;
    this.#columns = columns;
    // The statement names each column in its frame a few times.
    const frame = columns.reduce((sum, { name, targetType }) => sum + 4 * name.length + 4 * targetType.length + 80, 0);
    this.#maxChars = Math.max(statementChars - statementFrame - frame, 1000);
  }

  /** Takes in a file. Values that no statement can hold are refused. */
  async file(first: DataFile): Promise<void> {
    let file = first;
    for (let from = 1; ; ) {
      const tooLong = await this.#rowsOf(file, from);
      if (tooLong === undefined) return;
      from = tooLong.row;
      const reason = 'longer than a statement of Trino may be (statement_chars)';
      file = await file.refuse(from, { column: tooLong.column, reason });
    }
  }

  /** @param from the first row that is taken in @returns the first row that is too long for a statement */
  async #rowsOf({ path }: DataFile, from: number): Promise<{ row: number; column: string | undefined } | undefined> {
    let index = 0;
    for await (const row of csvRows(path)) {
      index += 1;
      if (index < from) continue;
      const text = rowText(row, this.#columns);
      if (text.length > this.#maxChars) return { row: index, column: this.#columns[longest(row)]?.name };
      if (this.#chars + text.length > this.#maxChars) await this.flush();
      this.#rows.push(text);
      this.#chars += text.length + 1;
    }
    return undefined;
  }

  /** Sends what waits. */
  async flush(): Promise<void> {
    if (this.#rows.length === 0) return;
    const names = this.#columns.map(({ name }) => quoteIdentifier(name)).join(', ');
    await this.#trino.run(`INSERT INTO ${this.#target} (${names}) ${literalRows(this.#columns, this.#rows.join(','))}`);
    this.#rows = [];
    this.#chars = 0;
  }
}
