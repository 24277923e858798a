import { describe } from 'vitest';
import { checks } from './checks.js';
import { edgeCases } from './edge-cases.js';
import { failures } from './failures.js';
import type { TableHarness } from './harness.js';
import { loads } from './loads.js';
import { schema } from './schema.js';
import { Workbench } from './suite.js';
import { values } from './values.js';

export { CuttingProxy } from './cutting-proxy.js';
export type { ComparedRow, TableHarness, TablePlace } from './harness.js';

/**
 * Declares the tests that every connector of tables must pass, for Vitest. They run against the real thing, through the same
 * configuration, diff and delivery that users have. Tests of capabilities that the connector does not declare are left out.
 * `CDSYNC_TEST_MILLION=1` adds a test with a million rows.
 */
export function tableConformance(harness: TableHarness): void {
  describe(`connector ${harness.connector.name}`, () => {
    const bench = new Workbench(harness);
    describe('loads', () => loads(bench));
    describe('values', () => values(bench));
    edgeCases(bench);
    describe('schema', () => schema(bench));
    describe('failures', () => failures(bench));
    describe('checks', () => checks(bench));
  });
}
