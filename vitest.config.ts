import { defineConfig } from 'vitest/config';

/**
 * What takes long: every connector against the real thing, every example and command of the documents, leaks, growth, cost, and
 * the sources that wait for the service.
 */
const long = [
  'test/conformance/connectors/*.test.ts',
  'test/integration/altered/*.test.ts',
  'test/integration/bucket-commands.test.ts',
  'test/integration/bucket-faults.test.ts',
  'test/integration/bucket-kills.test.ts',
  'test/integration/bucket-readers.test.ts',
  'test/integration/bucket.test.ts',
  'test/integration/canary*.test.ts',
  'test/integration/configs.test.ts',
  'test/integration/connectors/ducklake.test.ts',
  'test/integration/connectors/export-azure.test.ts',
  'test/integration/connectors/export-faults.test.ts',
  'test/integration/connectors/export-series.test.ts',
  'test/integration/connectors/http-oidc.test.ts',
  'test/integration/connectors/http-rest.test.ts',
  'test/integration/connectors/http-servers.test.ts',
  'test/integration/connectors/silence.test.ts',
  'test/integration/copied-storage.test.ts',
  'test/integration/cost.test.ts',
  'test/integration/demo.test.ts',
  'test/integration/deliveries/*.test.ts',
  'test/integration/deployments.test.ts',
  'test/integration/endpoints.test.ts',
  'test/integration/fleet-budget.test.ts',
  'test/integration/fleet-recipes.test.ts',
  'test/integration/growth.test.ts',
  'test/integration/inferred-text-runs.test.ts',
  'test/integration/inferred-texts.test.ts',
  'test/integration/install.test.ts',
  'test/integration/large-values.test.ts',
  'test/integration/ledger/ledger.test.ts',
  'test/integration/lookup.test.ts',
  'test/integration/management-sources.test.ts',
  'test/integration/numbers/numbers.test.ts',
  'test/integration/proxies.test.ts',
  'test/integration/readme.test.ts',
  'test/integration/recipes.test.ts',
  'test/integration/schedulers.test.ts',
  'test/integration/shared-budget.test.ts',
  'test/integration/signals.test.ts',
  'test/integration/small-data.test.ts',
  'test/integration/where-it-runs.test.ts',
  'test/integration/workflow.test.ts',
];
/** Tests of units that make stores and deliver them. `npm test` shall end in three minutes: they are tested with the program as a whole. */
const slowUnits = [
  'test/unit/connectors/{duckdb-large-rows,export-text}.test.ts',
  'test/unit/delivery/{input,table-delivery}.test.ts',
  'test/unit/delivery/files/file-delivery.test.ts',
  'test/unit/delivery/records/{erasures-owed,record-delivery,record-series}.test.ts',
  'test/unit/snapshot/{agreement,comments,commit,current-snapshot,diff,erasure,history,horizon,last-changes}.test.ts',
  'test/unit/snapshot/{previous-rows,publish,published,store-integrity,unchanged-rows}.test.ts',
  'test/unit/storage/old-readers.test.ts',
];
const fault = ['test/fault/**/*.test.ts'];

const temporary = 'test/fixtures/temporary-folder.ts';
/** Tests of the program run the present code. Tests of single functions need no build. */
const globalSetup = [temporary, 'test/fixtures/build.ts'];

export default defineConfig({
  test: {
    setupFiles: ['test/fixtures/property-seed.ts', 'test/fixtures/no-noted-secrets.ts'],
    // For tests that hang: on a busy machine, one that works through forty commands takes a minute.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    maxWorkers: Number(process.env.CDSYNC_TEST_WORKERS ?? 2),
    // Loading modules again for each file takes longer than most files.
    isolate: false,
    // `npm test` runs quick; npm run test:system, test:integration and test:fault run the others.
    projects: [
      {
        extends: true,
        test: { name: 'quick', globalSetup: [temporary], include: ['test/unit/**/*.test.ts'], exclude: slowUnits },
      },
      {
        extends: true,
        test: {
          name: 'system',
          globalSetup,
          include: ['test/{integration,conformance}/**/*.test.ts', ...slowUnits],
          exclude: long,
        },
      },
      { extends: true, test: { name: 'long', globalSetup, include: long } },
      { extends: true, test: { name: 'fault', globalSetup, include: fault } },
    ],
  },
});
