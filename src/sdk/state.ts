/** The table of records: one row for each table that cdsync keeps at a destination, beside these tables. */
export const stateTable = '_cdsync_state';

/** Columns of {@link stateTable} in order. `version` is an integer of 64 bits, the others are text. */
export const stateColumns = ['destination', 'stream', 'table_name', 'version', 'record'] as const;

/** The table in which users find every load. */
export const loadsTable = '_cdsync_loads';

/** Columns of {@link loadsTable} in order, and whether they are integers of 64 bits; the others are text, times in ISO 8601. */
export const loadsColumns = {
  load: false,
  destination: false,
  stream: false,
  table_name: false,
  action: false,
  why: false,
  generation: true,
  sequence: true,
  run_id: false,
  rows_sent: true,
  rows_after: true,
  values_refused: true,
  columns_added: false,
  columns_cleared: false,
  began_at: false,
  committed_at: false,
  cdsync_version: false,
} as const;

/** Lines of {@link loadsTable} older than this are removed: days. */
export const loadsKeptDays = 400;

/** The table in which versions without records kept how far a stream was loaded. */
export const legacyWatermarks = '_cdsync_watermarks';
