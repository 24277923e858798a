import { configDefaults, defineConfig } from 'vitest/config';

/** Every connector against the real thing: minutes, and so a command of their own, `npm run test:integration`. */
const connectors = 'test/conformance/connectors/**';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: process.env.CDSYNC_TEST_CONNECTORS === undefined ? [...configDefaults.exclude, connectors] : [],
    globalSetup: ['test/fixtures/build.ts'],
    setupFiles: ['test/fixtures/property-seed.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
  },
});
