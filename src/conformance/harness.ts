import type { TableConnector } from '../sdk/destination.js';

/**
 * A row as the suite compares it: each value as text, NULL as null. Integers and decimals in digits, `true` or `false`, doubles
 * as JSON writes them (`-0` for negative zero), texts themselves, dates as `2026-01-31`, timestamps as
 * `2026-01-31T12:00:00.000000Z`, nested values and JSON as JSON text, in any layout.
 */
export type ComparedRow = ReadonlyMap<string, string | null>;

/** An empty place to deliver to: a schema, a file, a bucket of its own. */
export interface TablePlace {
  /** The connector's options as one would write them in the YAML, secrets in plain text. */
  readonly options: Readonly<Record<string, unknown>>;
  /** All rows of a table, in any order, read by the vendor's own means. */
  rows(table: string): Promise<readonly ComparedRow[]>;
  /** Options by which the same place is reached through a TCP proxy on this port of 127.0.0.1. Left out: no server to cut off. */
  through?(port: number): Readonly<Record<string, unknown>>;
  /** Options of a caller that may connect, and may not make or write tables here. Left out: there are no permissions. */
  withoutPermission?(): Promise<Readonly<Record<string, unknown>>>;
  close(): Promise<void>;
}

/** What the suite needs to try a connector on the real thing. */
export interface TableHarness {
  readonly connector: TableConnector;
  /** False where 0.0 and -0.0 are stored as one. Default true. */
  readonly keepsNegativeZero?: boolean;
  /** Host and port of the real server, for the proxy. */
  readonly server?: { readonly host: string; readonly port: number };
  place(): Promise<TablePlace>;
}
