import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { indexOf } from '../pages.js';
import { serve } from '../process.js';
import { Comparison } from './comparison.js';
import { findPrograms, type Missing, type Program } from './programs.js';
import { peersTable } from './table.js';

const cdsync = join(import.meta.dirname, '..', '..', '..', 'dist', 'src', 'cli', 'main.js');
/** The largest page that the service gives: the fewest requests, for all. */
const pageSize = 1000;

/**
 * `npm run bench:peers [-- --profiles N] [--large] [--rounds N] [--out FILE]`: the same list by cdsync, by a plain program,
 * by dlt and by Airbyte's CDK. Exits with 1 if one of them failed or did not return all ids.
 */
async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      profiles: { type: 'string' },
      /** A million profiles: about an hour. */
      large: { type: 'boolean', default: false },
      rounds: { type: 'string', default: '3' },
      out: { type: 'string' },
    },
  });
  const profiles = Number(values.profiles ?? (values.large ? 1_000_000 : 100_000));
  const rounds = Number(values.rounds);
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-peers-'));
  const service = await serve(cdsync, ['--profiles', String(profiles)]);
  try {
    const found = await findPrograms(cdsync, folder);
    const missing = found.filter((each): each is Missing => 'missing' in each);
    for (const { name, missing: why } of missing) process.stderr.write(`NOT RUN: ${name}: ${why}\n`);
    const work = { service, index: await indexOf(service), pageSize };
    const comparison = new Comparison(
      work,
      found.filter((each): each is Program => 'begin' in each),
    );
    for (let round = 1; round <= rounds; round += 1) {
      process.stderr.write(`== round ${round} of ${rounds}\n`);
      await comparison.round(join(folder, 'round'));
    }
    const results = [...comparison.results(), ...missing];
    const text = peersTable(results, { profiles, pageSize, rounds, date: new Date() });
    process.stdout.write(text);
    if (values.out !== undefined) await writeFile(values.out, text);
    if (comparison.failed > 0) process.exitCode = 1;
  } finally {
    await service.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

await main();
