import { bigqueryConnector } from '../../../connectors/bigquery/index.js';
import { snowflakeConnector } from '../../../connectors/snowflake/index.js';
import type { TablePlace } from '../../../src/conformance/index.js';
import type { TableConnector } from '../../../src/sdk/index.js';
import { FakeBigquery } from '../../fixtures/bigquery.js';
import { FakeSnowflake } from '../../fixtures/snowflake.js';
import type { Target } from './targets.js';

const double = (name: string) => `"${name.replaceAll('"', '""')}"`;
const single = (text: string) => `'${text.replaceAll("'", "''")}'`;

interface Faked extends TablePlace {
  /** Runs a statement of DuckDB's SQL, beside the vendor's library. */
  query(sql: string): Promise<readonly Readonly<Record<string, unknown>>[]>;
}

/** A warehouse that no test can reach. Its fake is in this process, so no delivery to it is killed in another. */
// biome-ignore lint/suspicious/noExplicitAny: either connector, whatever its options are.
function faked(connector: TableConnector<any>, open: () => Promise<Faked>): Target {
  const { name } = connector;
  return {
    name,
    otherText: 'VARCHAR[]',
    text: 'VARCHAR',
    stampsLoads: false,
    refuses: () => false,
    killedAt: undefined,
    connectors: new Map([[name, connector]]),
    hands: {
      retype: (table, column, type) =>
        `ALTER TABLE ${table} ALTER COLUMN ${column} SET DATA TYPE ${type}${type.endsWith('[]') ? ` USING [${column}]` : ` USING ${column}[1]`}`,
      written: (type) => type,
      comment: (table, text) => `COMMENT ON TABLE ${table} IS ${single(text)}`,
      copy: (from, to) => [`CREATE TABLE ${to} AS FROM ${from}`],
    },
    start: async () => ({
      stop: async () => undefined,
      place: async () => {
        const place = await open();
        return {
          options: { connector: name, ...place.options },
          quoted: double,
          table: double,
          literal: single,
          rows: (table) => place.rows(table),
          types: async (table) => {
            const found = `SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ${single(table)}`;
            const rows = await place.query(found);
            return new Map(rows.map(({ column_name, data_type }) => [String(column_name), String(data_type)]));
          },
          run: async (sql) => void (await place.query(sql)),
          drop: async (table) => void (await place.query(`DROP TABLE ${double(table)}`)),
          beside: async () => {
            const beside =
              "SELECT table_name AS name FROM duckdb_tables() WHERE starts_with(table_name, '_cdsync_rows_')";
            return (await place.query(beside)).map(({ name }) => String(name));
          },
          close: () => place.close(),
        };
      },
    }),
  };
}

const snowflake = new FakeSnowflake();
const bigquery = new FakeBigquery();

export const fakes: readonly Target[] = [
  faked(
    snowflakeConnector(async () => snowflake),
    async () => {
      const place = await snowflake.place();
      return { ...place, query: (sql) => place.schema.query(sql) };
    },
  ),
  faked(
    bigqueryConnector(async () => bigquery),
    async () => {
      const place = await bigquery.place();
      return { ...place, query: (sql) => place.dataset.query(sql) };
    },
  ),
];
