import { from, type Trap } from './alterations.js';

/** A trap that also listens at a port of this machine. */
export interface NetworkTrap extends Trap {
  readonly port: number;
}

type Alteration = readonly [string, (trap: NetworkTrap) => string];

const quoted = (sql: string) => sql.replaceAll("'", "''");
/** A part of an expression of SQL that reads the secret. */
const reads = (secret: string) => `(SELECT content FROM read_text('${secret}'))`;
/** The rows of a table of the catalog that are about the delivered table. */
const ofMembers = "FROM s.ducklake_table WHERE table_name = 'members'";

/** Statements of another program in the catalog of a DuckLake, which is attached as `s`. */
export const inLake: readonly Alteration[] = [
  ...['ducklake_metadata', 'ducklake_table', 'ducklake_data_file', 'ducklake_snapshot'].map(
    (table): Alteration => [
      `a view in the place of ${table}`,
      ({ secret }) =>
        `CREATE TABLE s.main.kept AS FROM s.${table};; DROP TABLE s.${table};; CREATE VIEW s.${table} AS SELECT k.* FROM s.main.kept k, read_text('${secret}')`,
    ],
  ),
  ['a macro of the catalog', ({ secret }) => `CREATE MACRO s.main.md5(a) AS (SELECT id FROM ${from(secret)})`],
  [
    'a default in the catalog',
    () => `ALTER TABLE s.ducklake_snapshot ALTER COLUMN next_file_id SET DEFAULT current_setting('temp_directory')`,
  ],
  [
    'a generated column in the catalog',
    () =>
      'DROP TABLE s.ducklake_tag;; CREATE TABLE s.ducklake_tag (object_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT, key VARCHAR, value VARCHAR AS (upper(key)))',
  ],
  ...(['main', 'cdp'] as const).map(
    (schema): Alteration => [
      `a macro of the lake, in schema ${schema}`,
      ({ secret }) =>
        `INSERT INTO s.ducklake_macro SELECT schema_id, 900, 'md5', 0, NULL FROM s.ducklake_schema WHERE schema_name = '${schema}';;
         INSERT INTO s.ducklake_macro_impl VALUES (900, 0, 'duckdb', '${quoted(reads(secret))}', 'scalar');;
         INSERT INTO s.ducklake_macro_parameters VALUES (900, 0, 0, 'a', 'unknown', NULL, 'unknown')`,
    ],
  ),
  ...['members', '_cdsync_state', '_cdsync_loads'].map(
    (table): Alteration => [
      `a view of the lake in the place of ${table}`,
      ({ secret }) =>
        `INSERT INTO s.ducklake_view SELECT 901, uuid(), 0, NULL, schema_id, '${table}', 'duckdb', 'FROM ${quoted(from(secret))}', ''
           FROM s.ducklake_table WHERE table_name = '${table}';;
         DELETE FROM s.ducklake_table WHERE table_name = '${table}'`,
    ],
  ),
  [
    'a secret as a data file',
    ({ secret }) => `UPDATE s.ducklake_data_file SET path = '${secret}', path_is_relative = false`,
  ],
  [
    'a path out of the folder as a data file',
    ({ secret }) => `UPDATE s.ducklake_data_file SET path = '${'../'.repeat(12)}${secret}'`,
  ],
  [
    'an address as a data file',
    ({ port }) =>
      `UPDATE s.ducklake_data_file SET path = 'http://127.0.0.1:${port}/x.parquet', path_is_relative = false`,
  ],
  [
    'a secret as a file of deletions',
    ({ secret }) =>
      `INSERT INTO s.ducklake_delete_file SELECT 950 + data_file_id, table_id, begin_snapshot, NULL, data_file_id, '${secret}', false, 'parquet', 1, 21, 4, NULL, NULL FROM s.ducklake_data_file WHERE end_snapshot IS NULL`,
  ],
  [
    'another folder of a table',
    ({ folder }) => `UPDATE s.ducklake_table SET path = '${folder}/', path_is_relative = false`,
  ],
  [
    'another folder of a schema',
    ({ folder }) => `UPDATE s.ducklake_schema SET path = '${folder}/', path_is_relative = false`,
  ],
  [
    'a folder of a table out of that of the data',
    ({ folder }) => `UPDATE s.ducklake_table SET path = '${'../'.repeat(12)}${folder}/'`,
  ],
  [
    'an address of a table',
    ({ port }) => `UPDATE s.ducklake_table SET path = 'http://127.0.0.1:${port}/', path_is_relative = false`,
  ],
  [
    'another folder of the data',
    ({ folder }) => `UPDATE s.ducklake_metadata SET value = '${folder}/' WHERE key = 'data_path'`,
  ],
  [
    'SQL as a type',
    ({ secret }) =>
      `UPDATE s.ducklake_column SET column_type = 'VARCHAR) AS ${quoted(reads(secret))} --' WHERE column_order = 2`,
  ],
  [
    'SQL as a default',
    ({ secret }) =>
      `UPDATE s.ducklake_column SET default_value = '${quoted(reads(secret))}', initial_default = '${quoted(reads(secret))}', default_value_type = 'expression'`,
  ],
  [
    'SQL as the name of a table in the catalog',
    ({ secret }) =>
      `INSERT INTO s.ducklake_inlined_data_tables SELECT table_id, 'x" UNION ALL FROM read_text(''${secret}'') --', 1 FROM s.ducklake_table`,
  ],
  [
    'SQL as the order of rows',
    ({ secret }) =>
      `INSERT INTO s.ducklake_sort_info SELECT 960, table_id, 0, NULL ${ofMembers};;
       INSERT INTO s.ducklake_sort_expression SELECT 960, table_id, 0, '${quoted(reads(secret))}', 'duckdb', 'ASC', 'NULLS_LAST' ${ofMembers}`,
  ],
  [
    'SQL as the name of a column',
    ({ secret }) =>
      `UPDATE s.ducklake_column SET column_name = '", ${quoted(reads(secret))} AS "x' WHERE column_order = 3`,
  ],
  [
    'SQL as the name of a table',
    ({ secret }) =>
      `UPDATE s.ducklake_table SET table_name = 'members" UNION ALL FROM read_text(''${secret}'') --' WHERE table_name = 'members'`,
  ],
  [
    'SQL as statistics',
    ({ secret }) =>
      `UPDATE s.ducklake_file_column_stats SET min_value = '${quoted(`' || ${reads(secret)} || '`)}', extra_stats = '{'`,
  ],
  [
    'a file to be removed',
    ({ secret }) => `INSERT INTO s.ducklake_files_scheduled_for_deletion VALUES (1, '${secret}', false, '2000-01-01')`,
  ],
  ['another version', () => `UPDATE s.ducklake_metadata SET value = '9' WHERE key = 'version'`],
  ['no snapshot', () => 'DELETE FROM s.ducklake_snapshot'],
  ['fewer rows than files', () => 'UPDATE s.ducklake_data_file SET record_count = -1'],
];
