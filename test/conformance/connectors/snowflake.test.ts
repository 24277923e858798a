import { snowflakeConnector } from '../../../connectors/snowflake/index.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { FakeSnowflake } from '../../fixtures/snowflake.js';

const fake = new FakeSnowflake();

/** Against a fake, which says what it keeps to: there is no Snowflake to be had for tests. */
tableConformance({
  connector: snowflakeConnector(async () => fake),
  // As the DuckDB that stands behind the fake.
  keepsNegativeZero: false,
  place: () => fake.place(),
});
