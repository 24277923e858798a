import { copyFile, mkdir, open, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Fault, FaultKind } from '../fault.js';
import type { Lane } from '../lane.js';
import type { Random } from '../random.js';
import { listed } from '../residue.js';
import type { Situation } from '../situations.js';
import { Broken, expectEnding } from '../try-fault.js';

type Damage = (path: string, random: Random) => Promise<void>;

async function writeOver(path: string, from: number, bytes: Buffer): Promise<void> {
  const handle = await open(path, 'r+');
  await handle.write(bytes, 0, bytes.length, from);
  await handle.close();
}

const damages: Readonly<Record<string, Damage>> = {
  empty: (path) => truncate(path, 0),
  torn: async (path, random) => truncate(path, Math.floor((await stat(path)).size * random())),
  zeros: async (path) => writeOver(path, 0, Buffer.alloc((await stat(path)).size)),
  garbled: async (path, random) => {
    const { size } = await stat(path);
    const bytes = Buffer.from(Array.from({ length: Math.max(1, size >> 2) }, () => Math.floor(random() * 256)));
    await writeOver(path, Math.floor(random() * (size - bytes.length)), bytes);
  },
  gone: (path) => rm(path),
  foreign: (path) => writeFile(path, 'this was written by another program\n'),
  longer: async (path) => writeFile(path, 'and something more', { flag: 'a' }),
};

interface Target {
  readonly pattern: RegExp;
  readonly situations: readonly Situation[];
  readonly harms?: Fault['harms'];
  /** No run is possible without it: the run says so, and the next one works with the file from a backup. */
  readonly vital?: boolean;
}

const all: readonly Situation[] = ['daily', 'reading', 'repair'];
const runFolder = String.raw`^daily/\.cdsync/runs/[^/]+`;

const targets: readonly Target[] = [
  { pattern: /^daily\/\.cdsync\/store\.duckdb$/, situations: all, vital: true },
  { pattern: /^daily\/\.cdsync\/format\.json$/, situations: all, vital: true },
  { pattern: /^daily\/\.cdsync\/locks\/job\.duckdb$/, situations: all },
  { pattern: /^daily\/\.cdsync\/locks\/job\.json$/, situations: ['reading', 'repair'] },
  { pattern: new RegExp(`${runFolder}/run\\.json$`), situations: ['reading'] },
  { pattern: new RegExp(`${runFolder}/streams/members/journal\\.jsonl$`), situations: ['reading'] },
  { pattern: new RegExp(`${runFolder}/streams/audit/journal\\.jsonl$`), situations: ['reading'] },
  { pattern: new RegExp(`${runFolder}/streams/members/parts/00001\\.parquet$`), situations: ['reading'] },
  { pattern: new RegExp(`${runFolder}/streams/members/parts/00001\\.keys$`), situations: ['reading'] },
  { pattern: new RegExp(`${runFolder}/streams/members/staging/0\\.json$`), situations: ['reading'] },
  { pattern: /^daily\/parquet\/members\/manifest\.json$/, situations: all, harms: 'parquet' },
  { pattern: /^daily\/parquet\/vip\/manifest\.json$/, situations: all, harms: 'parquet' },
  {
    pattern: /^daily\/parquet\/members\/snapshot\/[^/]+\/([^/]+-)?00001\.parquet$/,
    situations: ['daily'],
    harms: 'parquet',
  },
  {
    pattern: /^daily\/parquet\/vip\/snapshot\/[^/]+\/([^/]+-)?00001\.parquet$/,
    situations: ['daily'],
    harms: 'parquet',
  },
  {
    pattern: /^daily\/parquet\/audit\/snapshot\/[^/]+\/([^/]+-)?00001\.parquet$/,
    situations: ['daily'],
    harms: 'parquet',
  },
  { pattern: /^daily\/published\/2\/daily\.duckdb$/, situations: ['daily', 'repair'], harms: 'published' },
  { pattern: /^daily\/published\/1\/daily\.duckdb$/, situations: ['daily'] },
  { pattern: /^daily\/daily\.duckdb$/, situations: ['daily'], harms: 'published' },
  { pattern: /^daily\/reports\//, situations: ['daily'] },
];

async function find(lane: Lane, pattern: RegExp): Promise<string> {
  const name = (await listed(lane.storage)).find((each) => pattern.test(each));
  if (name === undefined) throw new Error(`there is nothing like ${pattern.source} to be damaged`);
  return join(lane.storage, name);
}

function damaged({ pattern, harms, vital }: Target, situation: Situation, [name, damage]: [string, Damage]): Fault {
  let failed = false;
  return {
    name: `${situation}: ${pattern.source} ${name}`,
    situation,
    ...(harms === undefined ? {} : { harms }),
    strike: async (lane, random) => {
      const path = await find(lane, pattern);
      if (vital) await copyFile(path, join(lane.folder, 'backup'));
      await damage(path, random);
      const { code, errors } = expectEnding(await lane.run());
      failed = code !== 0;
      if (failed && !vital) throw new Broken(`the run failed with ${errors.join(', ')}`);
      return true;
    },
    mend: async (lane) => {
      if (!failed) return;
      const path = join(lane.jobFolder, '.cdsync', pattern.source.includes('store') ? 'store.duckdb' : 'format.json');
      await rm(path, { recursive: true, force: true });
      await copyFile(join(lane.folder, 'backup'), path);
    },
  };
}

/** Files and folders that an older or crashed cdsync may have left: the next run removes them. */
const leftovers: Readonly<Record<string, string>> = {
  'a run without anything': 'daily/.cdsync/runs/20200101T000000Z-abcdef/',
  'a run that says nothing': 'daily/.cdsync/runs/20200101T000000Z-abcdef/streams/members/journal.jsonl',
  'a run of the future': 'daily/.cdsync/runs/29990101T000000Z-abcdef/streams/members/journal.jsonl',
  'a torn temporary file': 'daily/published/.9.0123abcd.tmp/daily.duckdb',
  'a torn link to a snapshot': 'daily/parquet/members/.current.0123abcd.tmp',
  'a torn manifest': 'daily/parquet/members/.manifest.json.0123abcd.tmp',
  'a torn link': 'daily/.daily.duckdb.0123abcd.tmp',
  'a version of the future': 'daily/published/99/daily.duckdb',
  'a version of the future, as it was named before': 'daily/published/99.duckdb',
  'a log of a version to come': 'daily/published/3/daily.duckdb.wal',
  'a log of the store': 'daily/.cdsync/store.duckdb.wal',
  'a file that was written again': 'daily/.cdsync/restored/members.parquet',
  'a snapshot that never was': 'daily/parquet/members/snapshot/20200101T000000Z-abcdef/00001.parquet',
};

/** Files of another program: they disturb nothing, and stay. */
const strangers: Readonly<Record<string, string>> = {
  'a note': 'daily/FOREIGN.txt',
  'a note among the private files': 'daily/.cdsync/FOREIGN',
  'a folder of no run': 'daily/.cdsync/runs/FOREIGN/file',
  'a folder of no stream': 'daily/parquet/FOREIGN/manifest.json',
  'a file beside a snapshot': 'daily/parquet/members/snapshot/FOREIGN',
  'a lock of another kind': 'daily/.cdsync/locks/FOREIGN.json',
};

function added(situation: Situation, [name, place]: [string, string], stays: boolean): Fault {
  return {
    name: `${situation}: ${name}`,
    situation,
    strike: async (lane, random) => {
      const path = join(lane.storage, place);
      const text = `FOREIGN ${random()}`;
      await mkdir(dirname(path), { recursive: true });
      if (place.endsWith('/')) await mkdir(path, { recursive: true });
      else await writeFile(path, text);
      const { code, errors } = expectEnding(await lane.run());
      if (code !== 0) throw new Broken(`the run failed with ${errors.join(', ')}`);
      if (stays && (await readFile(path, 'utf8')) !== text) throw new Broken(`${place} has changed`);
      return true;
    },
    mend: async (lane) => {
      if (!stays) return;
      const [, before = ''] = /^(.*?FOREIGN[^/]*)/.exec(place) ?? [];
      await rm(join(lane.storage, before), { recursive: true });
    },
  };
}

/** A last line that a crash has torn, at each place where a line can tear. */
function tornLines(): Fault[] {
  return Array.from(
    { length: 12 },
    (_, number): Fault => ({
      name: `reading: the journal torn (${number})`,
      situation: 'reading',
      strike: async (lane, random) => {
        const path = await find(lane, /streams\/members\/journal\.jsonl$/);
        const { length } = await readFile(path);
        await truncate(path, Math.floor(length * random()));
        const { code, errors } = expectEnding(await lane.run());
        if (code !== 0) throw new Broken(`the run failed with ${errors.join(', ')}`);
        return true;
      },
    }),
  );
}

function damagesOf(): Fault[] {
  const ours = targets.flatMap((target) =>
    target.situations.flatMap((situation) =>
      Object.entries(damages).map((damage) => damaged(target, situation, damage)),
    ),
  );
  const left = Object.entries(leftovers).flatMap((each) => all.map((situation) => added(situation, each, false)));
  const theirs = Object.entries(strangers).flatMap((each) => all.map((situation) => added(situation, each, true)));
  return [...ours, ...left, ...theirs, ...tornLines()];
}

/** Files of the storage folder that are torn, empty, garbled or missing, and files that do not belong there. */
export const damage: FaultKind = { name: 'torn, empty and foreign files', faults: damagesOf, most: 300 };
