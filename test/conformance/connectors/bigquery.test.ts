import { bigqueryConnector } from '../../../connectors/bigquery/index.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { FakeBigquery } from '../../fixtures/bigquery.js';

const fake = new FakeBigquery();

/** Against a fake, which says what it keeps to: there is no BigQuery to be had for tests. */
tableConformance({
  connector: bigqueryConnector(async () => fake),
  // As the DuckDB that stands behind the fake.
  keepsNegativeZero: false,
  place: () => fake.place(),
});
