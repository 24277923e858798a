import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunReport } from '../../src/core/run-report.js';
import { Journal } from '../../src/storage/journal.js';
import { writeConfig } from './configs.js';
import { measure, serve } from './process.js';
import type { Figure } from './table.js';

const profiles = 300_000;
const pageSize = 100;

async function pagesKept(folder: string): Promise<number> {
  const runs = join(folder, 'kill', 'bench', '.cdsync', 'runs');
  const [run] = await readdir(runs).catch(() => [] as string[]);
  if (run === undefined) return 0;
  return (await Journal.read(join(runs, run, 'streams', 'members')))?.counters.pages ?? 0;
}

/** Pages that the next run fetches again after a kill at about 90 % of the pages. */
export async function benchKill(cdsync: string, folder: string): Promise<Figure[]> {
  const service = await serve(cdsync, ['--profiles', String(profiles)]);
  try {
    const config = await writeConfig(folder, 'kill', { page_size: pageSize });
    const pages = profiles / pageSize;
    await service.control('stats/reset', {});
    let asking = false;
    const killAt90 = async ([first]: readonly number[]) => {
      if (asking) return;
      asking = true;
      const { requests } = (await service.control('stats')) as { requests?: { total?: number } | number };
      const total = typeof requests === 'number' ? requests : (requests?.total ?? 0);
      if (total <= pages * 0.9) asking = false;
      else process.kill(first as number, 'SIGKILL');
    };
    const words = [cdsync, 'run', config, '--json', '--quiet'];
    await measure(process.execPath, words, { env: service.env, onSample: killAt90 });
    const kept = await pagesKept(folder);
    const usage = await measure(process.execPath, words, { env: service.env });
    const stream = (JSON.parse(usage.stdout) as RunReport).jobs[0]?.streams[0];
    const { requests } = (await service.control('stats')) as { requests?: { total?: number } | number };
    const sent = typeof requests === 'number' ? requests : (requests?.total ?? 0);
    const bytesPerPage = (stream?.bytes ?? 0) / Math.max(1, stream?.pages ?? 1);
    const pagesPerBatch = 12_000_000 / bytesPerPage;
    const again = sent - pages;
    return [
      {
        what: `pages fetched again after kill -9 at 90 % of ${pages}`,
        measured: `${again} (${(again / pagesPerBatch).toFixed(1)} batches; ${kept} were kept)`,
        reach: '<= 2 batches',
        stretch: '1',
      },
    ];
  } finally {
    await service.stop();
  }
}
