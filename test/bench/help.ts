import { measure } from './process.js';
import { type Figure, median } from './table.js';

/** Start-up time: showing the help must load nothing heavy. */
export async function benchHelp(cdsync: string): Promise<Figure[]> {
  const wall: number[] = [];
  const bare: number[] = [];
  for (let round = 0; round < 7; round += 1) {
    wall.push((await measure(process.execPath, [cdsync, '--help'])).wallSeconds * 1000);
    bare.push((await measure(process.execPath, ['-e', '0'])).wallSeconds * 1000);
  }
  const measured = `${Math.round(median(wall))} ms (Node alone: ${Math.round(median(bare))} ms)`;
  return [{ what: '`cdsync --help`', measured, reach: '200 ms', stretch: '120 ms' }];
}
