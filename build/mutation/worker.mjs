// Runs tests against one mutant after the other, in one process that vitest keeps warm. The parent sends each, and kills this
// process if one never ends.

import { createVitest } from 'vitest/node';

const { root, file, tests } = JSON.parse(process.argv[2]);
let source;
const mutation = {
  name: 'mutation',
  enforce: 'pre',
  load: (id) => (id.split('?')[0] === file && source !== undefined ? source : undefined),
};
const vitest = await createVitest(
  'test',
  {
    root,
    config: false,
    watch: false,
    include: ['test/unit/**/*.test.ts'],
    globalSetup: ['test/fixtures/temporary-folder.ts'],
    setupFiles: ['test/fixtures/property-seed.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    maxWorkers: 1,
    pool: 'threads',
    isolate: false,
    bail: 1,
    reporters: [{}],
  },
  { plugins: [mutation] },
);
await vitest.standalone();
const all = await vitest.globTestSpecifications();
const chosen = all.filter(({ moduleId }) => tests.includes(moduleId));

process.on('message', async (mutant) => {
  source = mutant.source;
  vitest.invalidateFile(file);
  const { testModules, unhandledErrors } = await vitest.runTestSpecifications(chosen);
  const isWell = unhandledErrors.length === 0 && testModules.every((module) => module.ok());
  process.send({ isKilled: !isWell, tests: testModules.length });
});
process.send({ isReady: true });
