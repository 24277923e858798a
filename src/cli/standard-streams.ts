import { fstatSync, writeSync } from 'node:fs';
import { visible, visibleJson } from '../core/printable.js';

/*
 * The only file that writes to the terminal. Texts have words of the service, the data and the file system, and a terminal
 * obeys control characters in them: each function here makes them visible.
 */

type Stream = 'stdout' | 'stderr';

interface Output {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

/** Writes a line for people. Further lines in the text are indented, so that no text can pass itself off as a line of ours. */
export function writeLine(to: Stream, text: string): void {
  process[to].write(`${text.split('\n').map(visible).join('\n  ')}\n`);
}

/** Writes JSON, or several lines of it; the values in it stay exact. */
export function writeJson(to: Stream, json: string): void {
  process[to].write(visibleJson(json));
}

/** Data that is not JSON: exact for a file or a program; visible, line by line, on a terminal. */
function shownData(text: string, { isTTY }: Output): string {
  return isTTY === true ? text.split('\n').map(visible).join('\n') : text;
}

/** Writes data that is not JSON to standard output: exact for a file or a program; visible, line by line, on a terminal. */
export function writeData(text: string, to: Output = process.stdout): void {
  to.write(shownData(text, to));
}

/** Cells of a line on the terminal that shows standard output; undefined if that is a file or a program. */
export function terminalWidth({ isTTY, columns }: Pick<NodeJS.WriteStream, 'isTTY' | 'columns'> = process.stdout) {
  return isTTY === true && columns > 0 ? columns : undefined;
}

/** No one gets the results any more, so there is nothing left to do: `cdsync query … | head -1`. */
export class ClosedPipe extends Error {}

/**
 * Writes rows to standard output, and waits until they are taken.
 * @throws {ClosedPipe} if no one gets them; {@link surviveClosedPipes} reports why, unless a reader just went away
 */
export function writeRows(rows: string, isJson: boolean): Promise<void> {
  return taken(isJson ? visibleJson(rows) : shownData(rows, process.stdout));
}

/** Writes bytes to standard output, which must not be a terminal, and waits until they are taken. @throws as {@link writeRows} */
export function writeBytes(bytes: Uint8Array): Promise<void> {
  return taken(bytes);
}

function taken(data: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(data, (error) => {
      if (error) reject(new ClosedPipe('no process reads the rows', { cause: error }));
      else resolve();
    });
  });
}

/** The errors of a write if no process reads the stream any more: a closed pipe, or a terminal that hung up. */
function isGone({ code }: NodeJS.ErrnoException, { isTTY }: NodeJS.WriteStream): boolean {
  return code === 'EPIPE' || code === 'ECONNRESET' || (code === 'EIO' && isTTY);
}

/**
 * Keeps the process going when no one reads its output any more: no run stops for that. Nor does one stop if its output
 * cannot be written for another reason, such as a log on a full disk.
 * @param lost is called once if standard output cannot be written
 */
export function surviveClosedPipes(lost: (error: Error) => void): void {
  let isReported = false;
  if (fstatSync(process.stdout.fd).isFile()) process.stdout._write = writeToFile;
  process.stdout.on('error', (error) => {
    if (isReported || isGone(error, process.stdout)) return;
    isReported = true;
    lost(error);
  });
  process.stderr.on('error', () => undefined);
}

/** Node writes to a file once, and takes a part for the whole: on a full disk the rest would be lost without an error. */
function writeToFile(bytes: Uint8Array, _: BufferEncoding, done: (error?: Error | null) => void): void {
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(process.stdout.fd, bytes, at);
    done();
  } catch (error) {
    done(error as Error);
  }
}

/** Removes the last lines of standard error, which must be a terminal. */
export function eraseLines(count: number): void {
  process.stderr.write(`\x1b[${count}A\x1b[0J`);
}
