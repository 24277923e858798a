import { recordsOf } from '../../../connectors/iceberg/record-property.js';
import { currentSchema, type TableMetadata } from '../../../connectors/iceberg/table-metadata.js';
import { typeText } from '../../../connectors/iceberg/types.js';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { IcebergCatalog } from '../../fixtures/iceberg-catalog.js';
import { icebergRows, icebergRun } from '../../fixtures/iceberg-rows.js';
import type { Target } from './targets.js';

/** Tables of an Iceberg catalog, read by DuckDB without the connector. */
export const iceberg: Target = {
  name: 'iceberg',
  otherText: '',
  text: '',
  stampsLoads: true,
  refuses: () => false,
  killedAt: 'message',
  async start() {
    const extensions = (await duckdbExtensions(['avro', 'httpfs', 'iceberg'])) as string;
    const catalog = (await IcebergCatalog.start()) as IcebergCatalog;
    let places = 0;
    return {
      stop: () => catalog.stop(),
      place: async () => {
        places += 1;
        const namespace = `place_${places}`;
        await catalog.createNamespace(namespace);
        const reading = { catalog: catalog.url, namespace, extensions };
        const metadata = async (table: string) =>
          (await catalog.tables(namespace)).includes(table)
            ? ((await catalog.table(namespace, table)).metadata as TableMetadata)
            : undefined;
        const records = async () => {
          const names = await catalog.tables(namespace);
          const found = await Promise.all(names.map(async (name) => ({ name, of: await metadata(name) })));
          return found.flatMap(({ name, of }) =>
            (of === undefined ? [] : recordsOf(of, name)).map(
              ({ table, record }) => new Map(Object.entries({ table_name: table, record })),
            ),
          );
        };
        return {
          options: { connector: 'iceberg', catalog: catalog.url, namespace, extensions, memory_mb: 256 },
          quoted: (name) => `"${name}"`,
          table: (name) => `ice.${namespace}."${name}"`,
          literal: (text) => `'${text.replaceAll("'", "''")}'`,
          rows: (table) => (table === '_cdsync_state' ? records() : icebergRows(reading, table)),
          types: async (table) => {
            const found = await metadata(table);
            const { fields } = found === undefined ? { fields: [] } : currentSchema(found);
            return new Map(fields.map(({ name, type }) => [name, typeText(type)]));
          },
          run: (sql) => icebergRun(reading, [sql]),
          drop: (table) => catalog.ask('DELETE', `/v1/namespaces/${namespace}/tables/${table}`).then(() => undefined),
          close: async () => undefined,
        };
      },
    };
  },
};
