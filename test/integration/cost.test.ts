import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { writeConfig } from '../bench/configs.js';
import { parseAlone, readPages } from '../bench/pages.js';
import { type ServedService, serve } from '../bench/process.js';
import { runCdsync } from '../bench/programs.js';
import { median } from '../bench/table.js';

/**
 * Guards against losing the time that the record cache saves. CPU time only, as a ratio to JSON.parse alone of the same
 * pages, taken in turn: another machine, or a loaded one, changes both. The bounds are about twice the measured ratios;
 * `npm run bench` has the targets. Without the record cache, a run without changes is at 3.
 */
const cdsync = join(import.meta.dirname, '..', '..', 'dist', 'src', 'cli', 'main.js');
const profiles = 100_000;
const pageSize = 1000;
const rounds = 3;

let folder: string;
let few: ServedService;
let many: ServedService;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cdsync-cost-'));
  [few, many] = await Promise.all([
    serve(cdsync, ['--profiles', '10']),
    serve(cdsync, ['--profiles', String(profiles)]),
  ]);
});
afterAll(async () => {
  await Promise.all([few.stop(), many.stop()]);
  await rm(folder, { recursive: true, force: true });
});

/** CPU seconds beyond those of a run of ten rows, as a ratio to JSON.parse alone. */
interface Ratios {
  readonly first: number;
  readonly unchanged: number;
  readonly changed: number;
}

async function ratios(round: number, bodies: readonly Buffer[]): Promise<Ratios> {
  const small = await writeConfig(folder, `few-${round}`, {});
  const large = await writeConfig(folder, `many-${round}`, { page_size: pageSize });
  const parsed = parseAlone(bodies);
  const seconds = async (config: string, service: ServedService) =>
    (await runCdsync(cdsync, config, service)).cpuSeconds;
  const compare = async () => ((await seconds(large, many)) - (await seconds(small, few))) / parsed;
  const [first, unchanged] = [await compare(), await compare()];
  await Promise.all([few.control('change', { days: 1 }), many.control('change', { days: 1 })]);
  return { first, unchanged, changed: await compare() };
}

it('a run without changes costs about what parsing its pages costs, other runs a few times that', {
  timeout: 300_000,
}, async () => {
  const bodies = await readPages(many, pageSize, profiles / pageSize);
  const all: Ratios[] = [];
  while (all.length < rounds) all.push(await ratios(all.length, bodies));
  const of = (name: keyof Ratios) => Number(median(all.map((each) => each[name])).toFixed(2));
  const measured = { first: of('first'), unchanged: of('unchanged'), changed: of('changed') };
  console.log(`CPU time beyond a run of ten rows, as a ratio to JSON.parse alone: ${JSON.stringify(measured)}`);
  expect(measured.unchanged).toBeLessThan(1.6);
  expect(measured.changed).toBeLessThan(6);
  expect(measured.first).toBeLessThan(8);
});
