import { configDefaults, defineConfig } from 'vitest/config';

/** Every connector against the real thing, and what else takes minutes: a command of their own, `npm run test:integration`. */
const long = [
  'test/conformance/connectors/**',
  'test/integration/canary.test.ts',
  'test/integration/copied-storage.test.ts',
  'test/integration/growth.test.ts',
  'test/integration/recipes.test.ts',
];

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: [...configDefaults.exclude, ...(process.env.CDSYNC_TEST_LONG === undefined ? long : [])],
    globalSetup: ['test/fixtures/build.ts'],
    setupFiles: ['test/fixtures/property-seed.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
  },
});
