import { snowflakeConnector } from '../../../connectors/snowflake/index.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { FakeSnowflake } from '../../fixtures/snowflake.js';

const fake = new FakeSnowflake();

/** Runs against a fake, because no Snowflake is available for tests; the fake lists the rules that it follows. */
tableConformance({
  connector: snowflakeConnector(async () => fake),
  // Like the DuckDB behind the fake.
  keepsNegativeZero: false,
  place: () => fake.place(),
});
