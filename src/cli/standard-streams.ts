import { visible, visibleJson } from '../core/printable.js';

/*
 * The only file that writes to the terminal. Texts hold what the service, the data and the file system said, and a terminal
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

/** Writes data that is not JSON to standard output: exact for a file or a program; visible, line by line, on a terminal. */
export function writeData(text: string, to: Output = process.stdout): void {
  to.write(to.isTTY === true ? text.split('\n').map(visible).join('\n') : text);
}

/** Removes the last lines of standard error, which must be a terminal. */
export function eraseLines(count: number): void {
  process.stderr.write(`\x1b[${count}A\x1b[0J`);
}
