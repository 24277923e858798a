import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ColumnRules } from '../../src/columns/column-rules.js';
import { ColumnSet } from '../../src/columns/columns.js';
import { Converter } from '../../src/extract/convert/converter.js';
import { PartWriter } from '../../src/extract/part-writer.js';
import { cutPage } from '../../src/extract/scan/page-cutter.js';
import { RecordScanner } from '../../src/extract/scan/record-scanner.js';
import { Database } from '../../src/storage/duckdb.js';
import { Journal, noCounters } from '../../src/storage/journal.js';
import { cpuSeconds, parseAlone, readPages } from './pages.js';
import { serve } from './process.js';
import { type Figure, median } from './table.js';

const profiles = 200_000;
const pageSize = 100;

async function fetchBodies(cdsync: string): Promise<Buffer[]> {
  const service = await serve(cdsync, ['--profiles', String(profiles)]);
  try {
    return await readPages(service, pageSize, profiles / pageSize);
  } finally {
    await service.stop();
  }
}

/** Page bytes to zstd Parquet parts with keys and journal: the shipped classes, without the network. */
async function convert(bodies: readonly Buffer[], folder: string): Promise<number> {
  for (const name of ['parts', 'staging']) await mkdir(join(folder, name), { recursive: true });
  const database = await Database.open({ memoryMb: 768, threads: 2 });
  const converter = new Converter(database, 2);
  const columns = new ColumnSet([
    { field: 'id', type: 'VARCHAR' },
    { field: 'index_id', type: 'VARCHAR' },
  ]);
  const journal = await Journal.open(folder);
  const options = {
    folder: join(folder, 'parts'),
    stagingFolder: join(folder, 'staging'),
    key: ['id'],
    compression: 'zstd' as const,
    rules: new ColumnRules(new Map()),
  };
  const writer = new PartWriter({
    ...options,
    columns,
    maker: converter,
    journal,
    parts: 0,
    counters: () => noCounters,
  });
  const scanner = new RecordScanner(columns, { container: 'attributes', key: ['id'], filter: new Map() });
  const began = process.cpuUsage();
  for (const body of bodies) {
    const { start, end, nextToken: token } = cutPage(body);
    const cursor = { token, issued_at: null, pages: 1, attempt: 1, done: token === null };
    await writer.add(() => scanner.scan(body, start, end), '*', cursor);
  }
  await writer.flush();
  const used = cpuSeconds(began);
  await writer.close();
  await journal.close();
  converter.close();
  database.close();
  return used;
}

function scan(bodies: readonly Buffer[]): number {
  const columns = new ColumnSet([
    { field: 'id', type: 'VARCHAR' },
    { field: 'index_id', type: 'VARCHAR' },
  ]);
  const scanner = new RecordScanner(columns, { container: 'attributes', key: ['id'], filter: new Map() });
  const began = process.cpuUsage();
  for (const body of bodies) {
    const { start, end } = cutPage(body);
    scanner.scan(body, start, end);
  }
  return cpuSeconds(began);
}

/** Compares conversion with JSON.parse of the same bodies, in turns: a machine that slows down slows both. */
export async function benchConversion(cdsync: string, folder: string): Promise<Figure[]> {
  const bodies = await fetchBodies(cdsync);
  const perMillion = 1_000_000 / profiles;
  const rounds: { parsed: number; scanned: number; converted: number }[] = [];
  for (let round = 0; round < 3; round += 1) {
    const parsed = parseAlone(bodies);
    const scanned = scan(bodies);
    rounds.push({ parsed, scanned, converted: await convert(bodies, join(folder, `convert-${round}`)) });
  }
  const parsed = median(rounds.map((each) => each.parsed)) * perMillion;
  const scanned = median(rounds.map((each) => each.scanned)) * perMillion;
  const converted = median(rounds.map((each) => each.converted)) * perMillion;
  const ratio = median(rounds.map((each) => each.converted / each.parsed));
  const bytes = bodies.reduce((sum, { length }) => sum + length, 0) / profiles;
  return [
    { what: `JSON.parse alone, CPU s per million profiles of ${Math.round(bytes)} bytes`, measured: parsed.toFixed(1) },
    { what: 'cutting and scanning every value, CPU s per million', measured: scanned.toFixed(1) },
    { what: 'page bytes to zstd Parquet with keys and checkpoints, CPU s per million', measured: converted.toFixed(1) },
    {
      what: 'the same as a ratio to JSON.parse alone',
      measured: `${ratio.toFixed(2)}x`,
      reach: '<= 1.6x',
      stretch: '<= 1.2x',
    },
  ];
}
