import { createCipheriv, createHash } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { PlainList } from '../../fixtures/plain-list.js';
import type { Fault, FaultKind } from '../fault.js';
import type { Lane } from '../lane.js';
import { measured } from '../measured.js';
import { rowsIn } from '../published.js';
import type { Random } from '../random.js';
import { Broken, expectEnding } from '../try-fault.js';

/** The default of `memory_mb`. */
const maxMb = 768;
/** Name of the configuration, its job and its storage folder. */
const name = 'large';
const sizes = { '256 KB': 1 << 18, '1 MB': 1 << 20, '16 MB': 1 << 24 } as const;

/** The place of the large text in its record, and the SQL that finds it. */
const shapes = {
  'a text': { of: (text: string): unknown => text, sql: 'note' },
  'a member of an object': { of: (text: string) => ({ a: text, b: 1 }), sql: 'note.a' },
  'an element of a list': { of: (text: string) => ['x', text], sql: 'note[2]' },
  'an object in a list': { of: (text: string) => [{ a: text }], sql: 'note[1].a' },
} as const;

interface LargeValues {
  readonly size: keyof typeof sizes;
  readonly shape: keyof typeof shapes;
  /** Whether kill -9 ends the first attempt of each run. */
  readonly isKilled: boolean;
}

type Notes = ReadonlyMap<number, string>;

/** Text of this many bytes; half of the time text that no compression makes small. */
function textOf(bytes: number, random: Random): string {
  const key = createHash('sha256').update(String(random())).digest();
  const count = random() < 0.5 ? bytes : 96;
  const cipher = createCipheriv('aes-256-ctr', key, Buffer.alloc(16));
  const text = cipher.update(Buffer.alloc(Math.ceil((count * 3) / 4))).toString('base64');
  return text.repeat(Math.ceil(bytes / text.length)).slice(0, bytes);
}

/** The texts of a few records: as large as wanted, and some short ones. */
function notesOf(count: number, bytes: number, random: Random): Notes {
  const most = Math.min(8, (1 << 24) / bytes);
  const found = new Map<number, string>();
  for (let n = random() < 0.5 ? 0 : count / 4; n > 0; n -= 1) found.set(Math.floor(random() * count), 'short');
  for (let n = Math.ceil(random() * most); n > 0; n -= 1)
    found.set(Math.floor(random() * count), textOf(bytes, random));
  return found;
}

function recordsOf(count: number, notes: Notes, shaped: (text: string) => unknown): string[] {
  return Array.from({ length: count }, (_, at) => {
    const note = notes.get(at);
    const attributes = { name: `n${at}`, ...(note === undefined ? {} : { note: shaped(note) }) };
    return JSON.stringify({ id: `p${at}`, index_id: 'made', attributes });
  });
}

async function configure(lane: Lane, url: string, pageSize: number): Promise<void> {
  const config = {
    version: 1,
    service: { base_url: url, tenant_id: 'acme', auth: { token: 'a-token' }, concurrency: 4 },
    storage: `./${name}`,
    jobs: {
      [name]: {
        streams: [{ name: 'made', source: 'index_profiles', index: 'made', page_size: pageSize }],
        guards: { max_deleted: 'off', max_changed: 'off' },
      },
    },
  };
  await writeFile(join(lane.folder, `${name}.json`), JSON.stringify(config, null, 1));
}

/** One run that succeeds, in the memory that it may take; before it, perhaps one that is killed. */
async function runWell(lane: Lane, isKilled: boolean, random: Random): Promise<void> {
  if (isKilled) {
    const child = await lane.start({ name });
    const stop = new AbortController();
    child.once('exit', () => stop.abort());
    await wait(500 + random() * 3_000, undefined, { signal: stop.signal }).catch(() => undefined);
    child.kill('SIGKILL');
    if (!stop.signal.aborted) await new Promise((resolve) => child.once('exit', resolve));
  }
  const { peakMb, ...end } = await measured(lane, { name });
  const { code, stderr } = expectEnding(end);
  if (code !== 0) throw new Broken(`a run with large values ended with ${code}: ${stderr}`);
  if (peakMb >= maxMb) throw new Broken(`the run took ${Math.round(peakMb)} MB, of ${maxMb}`);
}

/** Compares table and Parquet files with the list. */
async function expectExact(lane: Lane, count: number, notes: Notes, sql: string): Promise<void> {
  const folder = join(lane.folder, name, name);
  const md5 = (text: string) => createHash('md5').update(text).digest('hex');
  const ids = Array.from({ length: count }, (_, at) => ({ id: `p${at}`, name: `n${at}` }));
  const noted = [...notes].sort(([one], [other]) => one - other);
  const texts = noted.map(([at, text]) => ({ id: `p${at}`, md5: md5(text) }));
  for (const source of ['made', `read_parquet('${join(folder, 'parquet', 'made', 'current')}/*.parquet')`]) {
    const read = (columns: string, where = '') =>
      rowsIn(
        join(folder, `${name}.duckdb`),
        `SELECT id, ${columns} FROM ${source} ${where} ORDER BY substr(id, 2)::INTEGER`,
      );
    expectSame(source, await read('name'), ids);
    // Of a list that is NULL, DuckDB would copy the largest element of the others.
    if (notes.size > 0) expectSame(source, await read(`md5(${sql}) AS md5`, 'WHERE note IS NOT NULL'), texts);
  }
}

function expectSame(source: string, found: readonly object[], wanted: readonly object[]): void {
  const at = wanted.findIndex((row, index) => JSON.stringify(row) !== JSON.stringify(found[index]));
  if (at === -1 && found.length === wanted.length) return;
  const [is, should] = [found[at], wanted[at]].map((row) => JSON.stringify(row));
  throw new Broken(`${found.length} of ${wanted.length} rows in ${source}; ${is}, in the list ${should}`);
}

function largeAmongSmall({ size, shape, isKilled }: LargeValues): Fault {
  const { of, sql } = shapes[shape];
  return {
    name: `${size} as ${shape}${isKilled ? ', runs are killed' : ''}`,
    situation: 'daily',
    strike: async (lane, random) => {
      const list = await PlainList.open();
      try {
        await configure(lane, list.url, random() < 0.5 ? 1000 : 100);
        for (const _ of ['first', 'changed']) {
          const count = 400 + Math.floor(random() * 2_500);
          const notes = notesOf(count, sizes[size], random);
          list.records = recordsOf(count, notes, of);
          await runWell(lane, isKilled, random);
          await expectExact(lane, count, notes, sql);
        }
        return true;
      } finally {
        await list.close();
      }
    },
    leave: async (lane) => {
      for (const each of [name, `${name}.json`]) await rm(join(lane.folder, each), { recursive: true, force: true });
    },
  };
}

/** Records that are far larger than the others, at the default memory: a first run, and one that changes them. */
export const largeValues: FaultKind = {
  name: 'large values among small ones',
  lacks: async () => (process.platform === 'linux' ? undefined : '/proc'),
  faults: () =>
    (Object.keys(sizes) as (keyof typeof sizes)[]).flatMap((size) =>
      (Object.keys(shapes) as (keyof typeof shapes)[]).flatMap((shape) =>
        [false, true].map((isKilled) => largeAmongSmall({ size, shape, isKilled })),
      ),
    ),
  most: 24,
};
