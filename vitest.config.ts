import { configDefaults, defineConfig } from 'vitest/config';

/** Every connector against the real thing, and what else takes minutes: a command of their own, `npm run test:integration`. */
const long = [
  'test/conformance/connectors/*.test.ts',
  'test/integration/canary.test.ts',
  'test/integration/copied-storage.test.ts',
  'test/integration/growth.test.ts',
  'test/integration/recipes.test.ts',
];
const isLong = process.env.CDSYNC_TEST_LONG !== undefined;

export default defineConfig({
  test: {
    include: isLong ? long : ['test/**/*.test.ts'],
    exclude: [...configDefaults.exclude, ...(isLong ? [] : long)],
    globalSetup: ['test/fixtures/build.ts'],
    setupFiles: ['test/fixtures/property-seed.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
  },
});
