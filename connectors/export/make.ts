import { createReadStream, createWriteStream } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { Readable, type Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type FileTask, loadRefused, type Made, type MadeFile, printable, vendorLibrary } from '../../src/sdk/index.js';
import { encoded, encodes, framed, Measured, recordParts } from './bytes.js';
import { gzips } from './gzip.js';
import { lostLetter } from './letters.js';
import { clearName, type ExportOptions, fileName, rendered } from './names.js';
import { copySql, headerLine, isDelimited, lineEnd } from './text.js';

/** Of gzip and zip: higher levels take several times as long for a few per cent. */
const compressionLevel = 2;
const readBytes = 1 << 20;

type Step = (source: AsyncIterable<Buffer>) => AsyncIterable<Buffer>;

async function zipOf(name: string, at: number): Promise<Step> {
  const { ZipFile } = await vendorLibrary('yazl', () => import('yazl'));
  return async function* (source) {
    const zip = new ZipFile();
    const entry = Readable.from(source);
    zip.addReadStream(entry, name, { mtime: new Date(at), compressionLevel, forceDosTimestamp: true });
    zip.end();
    entry.on('error', (error) => (zip.outputStream as Readable).destroy(error));
    yield* zip.outputStream as AsyncIterable<Buffer>;
  };
}

function bytesOf(path: string) {
  return createReadStream(path, { highWaterMark: readBytes });
}

/** Makes files of rows, all but their hand-over. */
export class FileMaker {
  readonly #options: ExportOptions;
  readonly #task: FileTask;
  readonly #files: MadeFile[] = [];
  #holdsNul = false;

  constructor(options: ExportOptions, task: FileTask) {
    this.#options = options;
    this.#task = task;
  }

  async make(): Promise<Made> {
    const { format, split } = this.#options;
    if (format === 'parquet') await this.#parquet(split?.rows ?? Number.POSITIVE_INFINITY);
    else await this.#text();
    return { files: this.#files, holdsNul: this.#holdsNul };
  }

  async #parquet(partRows: number): Promise<void> {
    const { query, order, columns, rows, run, folder, op } = this.#task;
    for (let from = 0; from === 0 || from < rows; from += partRows) {
      const path = join(folder, `${op ?? 'rows'}-body`);
      const part = `SELECT * FROM (${query}) ORDER BY ${order} LIMIT ${partRows} OFFSET ${from}`;
      const limited = { query: Number.isFinite(partRows) ? part : query, order };
      await run(copySql(limited, columns, this.#options, path));
      const count = Math.min(partRows, rows - from);
      await this.#write(this.#isPlain ? path : bytesOf(path), [], this.#name(), () => count);
      await rm(path, { force: true });
    }
  }

  async #text(): Promise<void> {
    const { columns, run, folder, op } = this.#task;
    const { split } = this.#options;
    const path = join(folder, `${op ?? 'rows'}-body`);
    // It counts the written rows: rows that a file cannot hold are not in it.
    const above = this.#isWhole ? this.#above(0) : undefined;
    const written = await run(copySql(this.#task, columns, this.#options, path, above));
    if (above !== undefined && written > 0) return this.#write(path, [], this.#name(), () => written);
    if (above !== undefined) await run(copySql(this.#task, columns, this.#options, path));
    const source = bytesOf(path);
    if (split === undefined || written === 0) await this.#part(source, { rows: () => written, total: written });
    else await this.#parts(source, split, written);
    await rm(path, { force: true });
  }

  async #parts(source: AsyncIterable<Buffer>, split: NonNullable<ExportOptions['split']>, written: number) {
    const hasQuotes = isDelimited(this.#options) && this.#options.csv.quote !== 'none';
    const pieces = recordParts(source, this.#limits(split, written), hasQuotes);
    for (let done = 0; done < written; ) {
      let count = 0;
      const body = async function* (): AsyncGenerator<Buffer> {
        for (let next = await pieces.next(); next.done !== true; next = await pieces.next()) {
          count += next.value.rows;
          if (next.value.chunk.length > 0) yield next.value.chunk;
          if (next.value.isLast) return;
        }
      };
      await this.#part(body(), { rows: () => count, total: Math.min(split.rows ?? written, written - done) });
      done += count;
      if (count === 0) throw new Error(`${written} records were written, and only ${done} found`);
    }
  }

  /** The limits of a part's rows, less the bytes around them. */
  #limits({ rows, bytes }: NonNullable<ExportOptions['split']>, written: number): Parameters<typeof recordParts>[1] {
    if (bytes === undefined) return { rows };
    const { format, csv } = this.#options;
    if (!isDelimited(this.#options)) return { rows, bytes: bytes - 4, more: format === 'json' ? 1 : 0 };
    // No number of a row or a part is longer than that of all rows.
    const around = `${this.#above(written, written)}${this.#line(csv.lastLine, written, written)}`;
    const left = bytes - encoded(around, csv.encoding).length;
    // No letter takes more than twice as many bytes there.
    return { rows, bytes: csv.encoding === 'utf-16le' ? left / 2 : left };
  }

  /** Whether DuckDB's output needs neither packing nor encryption: then it is the file, and is only read once for its hashes. */
  get #isPlain(): boolean {
    const { compress, encrypt } = this.#options;
    return compress === 'none' && encrypt === undefined;
  }

  /** The same of a text: DuckDB can write the names above the rows, but no line that has their number. */
  get #isWhole(): boolean {
    const { csv, format, split } = this.#options;
    const { encoding, firstLine, lastLine } = csv;
    const isText = format === 'jsonl' || (isDelimited(this.#options) && encoding === 'utf-8');
    return this.#isPlain && isText && split === undefined && firstLine === '' && lastLine === '';
  }

  /** The text above the rows. */
  #above(rows: number, part = this.#files.length + 1): string {
    const { csv } = this.#options;
    const header = headerLine(this.#task.columns, this.#options);
    if (!isDelimited(this.#options)) return '';
    const bom = csv.bom && (csv.encoding === 'utf-8' || csv.encoding === 'utf-16le') ? '\ufeff' : '';
    return `${bom}${this.#line(csv.firstLine, rows, part)}${header === undefined ? '' : `${header}${lineEnd(this.#options)}`}`;
  }

  #line(template: string, rows: number, part = this.#files.length + 1): string {
    const { properties, op } = this.#task;
    const values = { ...properties, op, part, rows };
    return template === '' ? '' : `${rendered(template, this.#options, values)}${lineEnd(this.#options)}`;
  }

  /** One file of text: its rows with header, first and last line. */
  #part(body: AsyncIterable<Buffer>, { rows, total }: { readonly rows: () => number; readonly total: number }) {
    const { csv, format } = this.#options;
    if (!isDelimited(this.#options)) {
      const isList = format === 'json';
      const frame = isList ? [framed(Buffer.from('[\n'), () => Buffer.from(rows() === 0 ? ']\n' : '\n]\n'), true)] : [];
      return this.#write(body, frame, this.#name(), rows);
    }
    const steps: Transform[] = [];
    const frame = framed(Buffer.from(this.#above(total)), () => Buffer.from(this.#line(csv.lastLine, rows())), false);
    steps.push(frame);
    if (csv.encoding !== 'utf-8') steps.push(encodes(csv.encoding));
    this.#assertHeaderFits(headerLine(this.#task.columns, this.#options) ?? '');
    return this.#write(body, steps, this.#name(), rows);
  }

  #assertHeaderFits(header: string): void {
    const { encoding } = this.#options.csv;
    const lost = lostLetter(header, encoding);
    if (lost === undefined) return;
    throw loadRefused(`${encoding} has no letter for "${printable(lost)}", which stands in the name of a column`, {
      hint: 'give the column another name: columns: { …: { rename: … } }',
    });
  }

  #name(): string {
    const { properties, op, name } = this.#task;
    const part = this.#files.length + 1;
    if (name !== undefined && part === 1) return name;
    return fileName(this.#options, properties, { op, part });
  }

  /** @param body or the path of a file that has all bytes already */
  async #write(
    body: AsyncIterable<Buffer> | string,
    frame: readonly Transform[],
    name: string,
    rows: () => number,
  ): Promise<void> {
    const { folder, signal, op, properties } = this.#task;
    const { compress, encrypt } = this.#options;
    const made = new Measured();
    // Hashing takes as long as writing: bytes that are neither packed nor encrypted are hashed once.
    const clear = this.#isPlain ? made : new Measured();
    const path = join(folder, `${op ?? 'rows'}-${this.#files.length + 1}`);
    if (typeof body === 'string') {
      await this.#measure(body, made);
      await rename(body, path);
    } else {
      const inner = clearName(this.#options, name);
      const steps: (Transform | Step)[] = clear === made ? [...frame] : [...frame, clear];
      if (isDelimited(this.#options)) steps.unshift(this.#watchingNul());
      if (compress === 'gzip') steps.push((source) => gzips(source, compressionLevel));
      if (compress === 'zip') steps.push(await zipOf(inner, properties.at));
      if (encrypt !== undefined) {
        const { encrypts } = await import('./pgp.js');
        steps.push(await encrypts(encrypt, { name: basename(inner), at: properties.at }));
      }
      await pipeline([body, ...steps, made, createWriteStream(path, { mode: 0o600 })] as never, { signal });
    }
    const handle = await open(path, 'r+');
    await handle.sync().finally(() => handle.close());
    this.#files.push({
      name,
      local: basename(path),
      rows: rows(),
      bytes: made.bytes,
      sha256: made.sha256,
      clear_sha256: clear.sha256,
    });
  }

  /** Reads all of a file into one piece of memory: a stream would make as much work as the hash. */
  async #measure(path: string, made: Measured): Promise<void> {
    const handle = await open(path);
    try {
      const piece = Buffer.allocUnsafe(readBytes);
      for (;;) {
        this.#task.signal.throwIfAborted();
        const { bytesRead } = await handle.read(piece, 0, readBytes);
        if (bytesRead === 0) return;
        const bytes = piece.subarray(0, bytesRead);
        if (isDelimited(this.#options)) this.#holdsNul ||= bytes.includes(0);
        made.add(bytes);
      }
    } finally {
      await handle.close();
    }
  }

  #watchingNul(): Step {
    const onOutput = (chunk: Buffer) => {
      this.#holdsNul ||= chunk.includes(0);
    };
    return async function* (source) {
      for await (const chunk of source) {
        onOutput(chunk);
        yield chunk;
      }
    };
  }
}
