import { createReadStream } from 'node:fs';

/** A row of a CSV file: each value as text, NULL as null. */
export type CsvRow = readonly (string | null)[];

const chunkBytes = 1 << 20;

/** The value that begins at `at`, and where it ends; undefined if the text ends before it surely does. */
function value(text: string, at: number): { value: string | null; end: number } | undefined {
  if (text[at] !== '"') {
    let end = at;
    while (end < text.length && text[end] !== ',' && text[end] !== '\n') end += 1;
    return end === text.length ? undefined : { value: end === at ? null : text.slice(at, end), end };
  }
  for (let from = at + 1; ; ) {
    const quote = text.indexOf('"', from);
    // A quote at the end may be the first of two.
    if (quote === -1 || quote + 1 >= text.length) return undefined;
    if (text[quote + 1] !== '"') return { value: text.slice(at + 1, quote).replaceAll('""', '"'), end: quote + 1 };
    from = quote + 2;
  }
}

/** The row that begins at `at`; undefined if the text ends before it does. */
function row(text: string, at: number): { row: CsvRow; end: number } | undefined {
  const values: (string | null)[] = [];
  for (let from = at; ; ) {
    const parsed = value(text, from);
    if (parsed === undefined) return undefined;
    values.push(parsed.value);
    from = parsed.end + 1;
    if (text[parsed.end] === '\n') return { row: values, end: from };
  }
}

/**
 * The rows of a CSV file as DuckDB writes it: values with commas, quotes or line ends are in quotes, NULL is nothing, and a text
 * without characters is `""`.
 */
export async function* csvRows(path: string): AsyncGenerator<CsvRow> {
  let text = '';
  for await (const chunk of createReadStream(path, { encoding: 'utf8', highWaterMark: chunkBytes })) {
    text += chunk as string;
    let at = 0;
    for (let parsed = row(text, at); parsed !== undefined; parsed = row(text, at)) {
      yield parsed.row;
      at = parsed.end;
    }
    text = text.slice(at);
  }
  if (text !== '') throw new Error('the CSV file ends in the middle of a row');
}
