import { holdsAsJson, tableConnector } from '../../src/sdk/index.js';
import { logins, snowflakeOptions } from './options.js';
import { installedSdk, type SnowflakeSdk } from './sdk.js';
import { mapColumn, widens } from './types.js';

/** @param sdk returns the vendor's library; called when the connector is opened */
export function snowflakeConnector(sdk: () => Promise<SnowflakeSdk>) {
  return tableConnector({
    name: 'snowflake',
    summary: 'Loads tables of Snowflake. Needs the package snowflake-sdk.',
    erasure: 'Time Travel keeps it for as long as the table says, and Fail-safe for 7 more days',
    options: snowflakeOptions,
    optionRules: { forms: logins },
    capabilities: {
      format: 'parquet',
      sessions: 4,
      identifiers: { maxBytes: 255, ignoresCase: false },
    },
    place: ({ account, host, database, schema }) => `${(host ?? account).toLowerCase()} ${database} ${schema}`,
    mapColumn,
    holds: holdsAsJson,
    widens,
    open: async (context) => (await import('./load.js')).openSnowflake(await sdk(), context),
  });
}

/** Loads Snowflake by PUT, COPY INTO and MERGE. */
export default snowflakeConnector(installedSdk);
