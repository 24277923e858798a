import { measureShort } from './process.js';
import { type Figure, median } from './table.js';

/** Start-up time: showing the help must load nothing heavy. */
export async function benchHelp(cdsync: string): Promise<Figure[]> {
  const help: number[] = [];
  const bare: number[] = [];
  for (let round = 0; round < 7; round += 1) {
    help.push((await measureShort([cdsync, '--help'])).cpuSeconds * 1000);
    bare.push((await measureShort(['-e', '0'])).cpuSeconds * 1000);
  }
  const measured = `${Math.round(median(help))} ms (Node alone: ${Math.round(median(bare))} ms)`;
  return [{ what: '`cdsync --help`, CPU', measured, reach: '150 ms', stretch: '110 ms' }];
}
