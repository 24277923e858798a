import { holdsAsJson, tableConnector, widensInteger } from '../../src/sdk/index.js';
import { bigqueryOptions, checkOptions } from './options.js';
import { type BigquerySdk, installedSdk } from './sdk.js';
import { mapColumn } from './types.js';

/** @param sdk returns the vendor's library; called when the connector is opened */
export function bigqueryConnector(sdk: () => Promise<BigquerySdk>) {
  return tableConnector({
    name: 'bigquery',
    summary: 'Loads tables of BigQuery. Needs the package @google-cloud/bigquery.',
    erasure: 'time travel keeps it for up to 7 days',
    options: bigqueryOptions,
    optionRules: { check: checkOptions },
    capabilities: {
      format: 'parquet',
      sessions: 4,
      identifiers: {
        maxBytes: 300,
        allowed: /\w/,
        // Not one of the prefixes that BigQuery reserves, in any case.
        begins: /^(?!_TABLE_|_FILE_|_PARTITION|_ROW_TIMESTAMP|__ROOT__|_COLIDENTIFIER|_CHANGE_)[a-z_]/i,
      },
    },
    place: ({ project, dataset }) => `${project} ${dataset}`,
    mapColumn,
    holds: holdsAsJson,
    widens: widensInteger,
    open: async (context) => (await import('./load.js')).openBigquery(await sdk(), context),
  });
}

/** Loads BigQuery by load jobs of Parquet and MERGE. */
export default bigqueryConnector(installedSdk);
