import type { StreamColumn } from './column-type.js';
import type { ColumnMapping } from './load.js';

/** The properties that a file's name may contain. None is a value of a row. */
export interface FileFacts {
  readonly job: string;
  readonly stream: string;
  /** The run that made the snapshot. */
  readonly run_id: string;
  /** When the file was planned: milliseconds since 1970. */
  readonly at: number;
  /** Counts the deliveries, from 1; the same for all files of one delivery. */
  readonly sequence: number;
  /** The same, from 1 on each day. */
  readonly day_sequence: number;
}

/** Names with the same result may be one file: places differ in case, and in how they compose letters. */
export function comparableFileName(name: string): string {
  return name.normalize('NFC').toLowerCase();
}

/** How a destination of files decides, without a connection. */
export interface FilePolicy {
  readonly content: 'all' | 'changes';
  readonly when: 'changed' | 'always';
  readonly empty: 'send' | 'skip' | 'fail';
  /** The stream's columns to write, in order. Undefined: all. */
  readonly select: readonly string[] | undefined;
  /** Whether inserted, updated and deleted rows go into files of their own. */
  readonly hasOp: boolean;
  /** Files older than this are removed: milliseconds. */
  readonly keep: number | undefined;
  /** Whether a row with a value that the file cannot hold is left out, and not only the value. */
  readonly refusesRows: boolean;
  /** The day of a moment in the time zone of names. */
  day(at: number): string;
  /** The form of a column's values, and which of them the file cannot hold. */
  mapColumn(column: StreamColumn): ColumnMapping;
}

/** The rows of a file, and what makes bytes of them. */
export interface FileTask {
  /** SQL: the columns `c0`, `c1` … in the order of {@link columns}, then those of {@link order}. Its rows have no order. */
  readonly query: string;
  /** SQL of the columns by which the rows must be sorted: a total order, because with ties the bytes depend on the number of threads. */
  readonly order: string;
  readonly columns: readonly StreamColumn[];
  readonly properties: FileFacts;
  readonly op?: FileOp | undefined;
  /** The old name that is written again. */
  readonly name?: string | undefined;
  /** How many rows there are. */
  readonly rows: number;
  /** Runs a statement in DuckDB. @returns the number in its first cell */
  run(sql: string): Promise<number>;
  /** Where files are written: private, empty, and kept until they are handed over. */
  readonly folder: string;
  readonly signal: AbortSignal;
}

export type FileOp = 'inserted' | 'updated' | 'deleted';

/** Which file of a delivery. */
export interface FilePart {
  readonly op?: FileOp | undefined;
  /** From 1. */
  readonly part: number;
}

/** A file that is whole on this machine, and not handed over yet. */
export interface MadeFile {
  /** Relative to the place, with `/`. */
  readonly name: string;
  /** The name in {@link FileTask.folder}. */
  readonly local: string;
  readonly rows: number;
  readonly bytes: number;
  /** Of these bytes. */
  readonly sha256: string;
  /** Of the text, before compression and encryption. */
  readonly clear_sha256: string;
}

export interface Made {
  readonly files: readonly MadeFile[];
  /** Whether a file of text has the character U+0000, which its readers refuse. */
  readonly holdsNul: boolean;
}

/** A file that cdsync has handed over, or may have. */
export type WrittenFile = Pick<MadeFile, 'name' | 'bytes' | 'sha256'>;

/** Where a file is before it has its name. */
export interface TemporaryPlace {
  readonly name: string;
  /** A digest of the place's address. */
  readonly place: string;
}

export interface HandOver {
  readonly file: MadeFile;
  /** Its bytes. */
  readonly path: string;
  readonly properties: FileFacts;
  /** What of this name cdsync has written: it may be replaced. */
  readonly replaceable: readonly WrittenFile[];
  /** Names of files that cdsync has put beside others: they may be replaced. */
  readonly companions: readonly string[];
  /** Whether an earlier try may have written it. */
  readonly isTried: boolean;
  /** Where an earlier try had all bytes under a temporary name. */
  readonly uploadedTo: TemporaryPlace | undefined;
  /** Call it when all bytes are under the temporary name, before it is renamed. */
  uploaded(to: TemporaryPlace): Promise<void>;
  /** Call it before the bytes under the temporary name go, and before an error that leaves nothing of this try under the name: a file there is of others. */
  refused(): Promise<void>;
  /** Call it before a file beside it is written, when no file of others has the name. */
  beside(name: string): Promise<void>;
}

/** The result of handing a file over. */
export interface HandedOver {
  /** Files beside it: a checksum, a mark that it is done. */
  readonly companions: readonly string[];
  /** Whether its size was compared with the bytes that were sent. */
  readonly isReadBack: boolean;
}

/** An open place of files. */
export interface FilePlace {
  /** Puts a file, then its companions. Repeating it does no harm. @throws {CdsyncError} `file_exists` for a file of others */
  handOver(task: HandOver): Promise<HandedOver>;
  /** Removes a file. @returns whether it was there */
  remove(name: string): Promise<boolean>;
  close(): Promise<void> | void;
}
