import { afterAll, beforeAll, describe, it } from 'vitest';
import { seed } from '../../fixtures/seed.js';
import { DuckdbProcess } from './duckdb-process.js';
import { Series } from './series.js';
import { watchSteps } from './strikes.js';
import { targets } from './targets.js';

/** How many seeds each connector gets, and how many runs each seed has. */
const count = Number(process.env.CDSYNC_TEST_DELIVERIES ?? 2);
const runs = 10;
const only = process.env.CDSYNC_TEST_DELIVERIES_TO;
const seeds = Array.from({ length: count }, (_, number) => seed + number);
const tally = new Map<string, number>();

let process_: DuckdbProcess;
beforeAll(() => {
  watchSteps();
  process_ = new DuckdbProcess();
});
afterAll(async () => {
  await process_.close();
  const lines = [...tally].sort().map(([what, times]) => `${String(times).padStart(6)} ${what}`);
  if (count > 2) process.stderr.write(`${lines.join('\n')}\n`);
});

for (const target of targets.filter(({ name }) => only === undefined || only === name))
  describe(`deliveries to ${target.name}`, () => {
    let server: Awaited<ReturnType<typeof target.start>>;
    beforeAll(async () => {
      server = await target.start();
    });
    afterAll(() => server.stop());

    it.for(seeds)(
      'leave exactly the rows and columns that follow from the source and the rules: seed %i',
      { timeout: 300_000 },
      async (number) => {
        const place = await server.place();
        await new Series({ seed: number, runs, target, place, process: process_, tally }).run();
        await place.close();
      },
    );
  });
