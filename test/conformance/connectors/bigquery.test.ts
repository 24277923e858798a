import { bigqueryConnector } from '../../../connectors/bigquery/index.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { FakeBigquery } from '../../fixtures/bigquery.js';

const fake = new FakeBigquery();

/** Runs against a fake, because no BigQuery is available for tests; the fake lists the rules that it follows. */
tableConformance({
  connector: bigqueryConnector(async () => fake),
  // Like the DuckDB behind the fake.
  keepsNegativeZero: false,
  place: () => fake.place(),
});
