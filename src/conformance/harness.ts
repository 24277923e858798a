import type { TableConnector } from '../sdk/destination.js';

/**
 * A row as the suite compares it: each value as text, NULL as null. Integers and decimals are digits, booleans `true` or
 * `false`, doubles as JSON writes them (`-0` for negative zero), texts themselves, dates like `2026-01-31`, timestamps like
 * `2026-01-31T12:00:00.000000Z`, nested values and JSON as JSON text, in any layout.
 */
export type ComparedRow = ReadonlyMap<string, string | null>;

/** An empty place to deliver to, such as a new schema, file or bucket. */
export interface TablePlace {
  /** The connector's options as a user would write them in the YAML, secrets in plain text. */
  readonly options: Readonly<Record<string, unknown>>;
  /** All rows of a table, in any order, read with the vendor's own client. */
  rows(table: string): Promise<readonly ComparedRow[]>;
  /** Options that reach the same place through a TCP proxy on this port of 127.0.0.1. Left out: there is no server. */
  through?(port: number): Readonly<Record<string, unknown>>;
  /** Options of a caller that may connect, but may not create or write tables. Left out: the place has no permissions. */
  withoutPermission?(): Promise<Readonly<Record<string, unknown>>>;
  /**
   * All that there is, as text that differs if anything was written: names of tables or files, with sizes or counts of rows. Left
   * out: the suite does not test that a check writes nothing.
   */
  contents?(): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** The means that the suite needs to test a connector against its real target. */
export interface TableHarness {
  readonly connector: TableConnector;
  /** False if the destination stores -0.0 as 0.0. Default: true. */
  readonly keepsNegativeZero?: boolean;
  /** Whether numbers in JSON may have more digits than a double keeps. Default: true. */
  readonly keepsLongJsonNumbers?: boolean;
  /** False if readers may see a part of a load, as the destination writes it in several statements. Default: true. */
  readonly showsLoadsAtOnce?: boolean;
  /** Host and port of the real server, for the proxy. */
  readonly server?: { readonly host: string; readonly port: number };
  place(): Promise<TablePlace>;
}
