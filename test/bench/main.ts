import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { benchBudget } from './budget.js';
import { benchConversion } from './conversion.js';
import { benchHelp } from './help.js';
import { benchKill } from './kill.js';
import { benchLake } from './lake.js';
import { benchLongList } from './long-list.js';
import { benchManyStreams } from './many-streams.js';
import { benchOutbound } from './outbound.js';
import { benchPush } from './push.js';
import { benchRuns } from './runs.js';
import { benchSmallRun } from './small-run.js';
import { type Figure, markdown } from './table.js';
import { benchWide } from './wide.js';

const cdsync = join(import.meta.dirname, '..', '..', 'dist', 'src', 'cli', 'main.js');

/** They run where they are named: one downloads servers, the others take minutes. */
const named = new Set(['lake', 'long-list', 'many-streams', 'wide']);

/** `npm run bench [-- --only NAME] [--large] [--out FILE]`: every target in one run, as ratios where the machine matters. */
async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true },
      /** 10 million profiles too; about ten minutes more. */
      large: { type: 'boolean', default: false },
      out: { type: 'string' },
    },
  });
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-bench-'));
  const sizes = values.large ? [100_000, 1_000_000, 10_000_000] : [100_000, 1_000_000];
  const benches: Record<string, () => Promise<Figure[]>> = {
    help: () => benchHelp(cdsync),
    'small-run': () => benchSmallRun(cdsync, folder),
    conversion: () => benchConversion(cdsync, folder),
    runs: () => benchRuns(cdsync, folder, sizes),
    budget: () => benchBudget(cdsync, folder),
    kill: () => benchKill(cdsync, folder),
    push: () => benchPush(cdsync, folder),
    outbound: () => benchOutbound(cdsync, folder),
    'long-list': () => benchLongList(cdsync, folder, values.large ? 50_000_000 : 5_000_000),
    'many-streams': () => benchManyStreams(cdsync, folder, 300),
    wide: async () => [
      ...(await benchWide(cdsync, folder, 5_000, 3)),
      ...(await benchWide(cdsync, folder, values.large ? 20_000 : 5_000, 200)),
    ],
    lake: () => benchLake(cdsync, folder, values.large ? 10_000_000 : 1_000_000),
  };
  const figures: Figure[] = [];
  try {
    for (const [name, bench] of Object.entries(benches)) {
      if (values.only === undefined ? named.has(name) : !values.only.includes(name)) continue;
      process.stderr.write(`${name} ...\n`);
      figures.push(...(await bench()));
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  const text = markdown(figures);
  process.stdout.write(text);
  if (values.out !== undefined) await writeFile(values.out, text);
}

await main();
