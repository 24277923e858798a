import { writeConfig } from './configs.js';
import { measureShort, serve } from './process.js';
import { type Figure, median } from './table.js';

/** The fixed cost of a run, whatever its rows: loading modules, DuckDB, the store. */
export async function benchSmallRun(cdsync: string, folder: string): Promise<Figure[]> {
  const service = await serve(cdsync, ['--profiles', '10']);
  const config = await writeConfig(folder, 'small-run', {});
  const run = async () => {
    const usage = await measureShort([cdsync, 'run', config, '--quiet'], service.env);
    if (usage.code !== 0) throw new Error(`cdsync run ended with ${usage.code}: ${usage.stderr}`);
    return usage;
  };
  const shown = (usages: readonly Awaited<ReturnType<typeof run>>[]) => {
    const seconds = median(usages.map(({ cpuSeconds }) => cpuSeconds));
    return `${seconds.toFixed(2)} s / ${Math.round(median(usages.map(({ peakMb }) => peakMb)))} MB`;
  };
  try {
    const first = await run();
    const again: (typeof first)[] = [];
    while (again.length < 7) again.push(await run());
    return [
      { what: 'a run of ten rows, the first, CPU / peak RSS', measured: shown([first]) },
      {
        what: 'a run of ten rows, nothing changed, CPU / peak RSS',
        measured: shown(again),
        reach: '0.5 s / -',
        stretch: '0.35 s / -',
      },
    ];
  } finally {
    await service.stop();
  }
}
