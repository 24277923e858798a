import { createHash } from 'node:crypto';
import { deflateSync } from 'node:zlib';
import { type Entry, piecesOf, type StoredFile } from '../../../src/object-store/state.js';
import type { Trap } from './alterations.js';

/** The objects of a job, by key below its folder. */
export type Objects = Map<string, Buffer>;

/** A change that another program made in the bucket of a job. */
export interface BucketAlteration {
  readonly what: string;
  make(objects: Objects, trap: Trap): void;
}

type Document = Record<string, unknown> & { files: (Entry & Record<string, unknown>)[] };

function edited(change: (document: Document) => unknown) {
  return (objects: Objects): void => {
    const document = JSON.parse(objects.get('state.json')?.toString() ?? '') as Document;
    objects.set('state.json', Buffer.from(JSON.stringify(change(document) ?? document)));
  };
}

const isFile = (entry: Entry): entry is StoredFile => !('link' in entry);
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

/** The entry of a file of the state. */
const ofFile = (path: string, change: (file: StoredFile & Record<string, unknown>) => void) =>
  edited(({ files }) => {
    for (const file of files) if (isFile(file) && file.path === path) change(file);
  });

const store = '.cdsync/store.duckdb';

/** Ranges of the store that no file has. */
const ranges: readonly [string, (file: StoredFile) => unknown][] = [
  ['before the beginning', ({ bytes }) => [[0, -1, bytes]]],
  ['far before the beginning', ({ bytes }) => [[0, -1e300, bytes]]],
  ['behind the end', ({ bytes }) => [[0, bytes, bytes]]],
  ['of no length', () => [[0, 0, -5]]],
  ['of half a byte', ({ bytes }) => [[0, 0.5, bytes]]],
  ['of a huge length', () => [[0, 0, 1e300]]],
  ['of an object that is not named', ({ bytes }) => [[7, 0, bytes]]],
  ['of a negative object', ({ bytes }) => [[-1, 0, bytes]]],
  ['none', () => []],
  ['very many', () => Array.from({ length: 20_000 }, () => [0, 0, 65_536])],
];

const numbers = [-1, 0.5, 1e300];

const ofState: readonly [string, (objects: Objects, trap: Trap) => void][] = [
  ...['../../../outside/x', '/tmp/x', 'a/../../x', '.', '', 'a//b', 'a\0b', 'a\\..\\b'].map(
    (path): [string, (objects: Objects) => void] => [
      `a file at ${JSON.stringify(path)}`,
      edited(({ files }) => {
        const file = files.find((file) => file.path === '.cdsync/format.json');
        if (file !== undefined) files.push({ ...file, path });
      }),
    ],
  ),
  ...[
    '.cdsync',
    'parquet',
    'published',
    'reports',
    'parquet/members',
    '.cdsync/store.duckdb',
    'nightly.duckdb',
  ].flatMap((path) =>
    ['../..', 'published'].map((link): [string, (objects: Objects) => void] => [
      `a link at ${path} to ${link}`,
      edited(({ files }) => {
        files.unshift({ path, link } as never);
      }),
    ]),
  ),
  [
    'a link to the secret',
    (objects, { secret }) =>
      edited(({ files }) => {
        files.push({ path: 'nightly.duckdb', link: secret } as never);
      })(objects),
  ],
  [
    'a file in the place of a folder',
    edited(({ files }) => {
      const file = files.find((file) => file.path === '.cdsync/format.json');
      if (file !== undefined) files.unshift({ ...file, path: '.cdsync/feeds' }, { ...file, path: 'parquet' });
    }),
  ],
  ['a file twice', edited((state) => ({ ...state, files: [...state.files, ...state.files] }))],
  ['no files', edited((state) => ({ ...state, files: [] }))],
  ['no store', edited((state) => ({ ...state, files: state.files.filter(({ path }) => path !== store) }))],
  [
    'no feeds, manifests and Parquet files',
    edited((state) => ({
      ...state,
      files: state.files.filter(({ path }) => !/feeds|parquet/.test(path)),
    })),
  ],
  [
    'files of mode 777',
    edited(({ files }) => {
      for (const file of files) if (isFile(file)) Object.assign(file, { mode: 0o777 });
    }),
  ],
  ...numbers.flatMap((number): [string, (objects: Objects) => void][] => [
    [
      `${number} bytes`,
      edited(({ files }) => {
        for (const file of files) if (isFile(file)) Object.assign(file, { bytes: number });
      }),
    ],
    [
      `changed at ${number}`,
      edited(({ files }) => {
        for (const file of files) if (isFile(file)) Object.assign(file, { changed_ms: number });
      }),
    ],
    [`generation ${number}`, edited((state) => ({ ...state, generation: number, fence: number }))],
  ]),
  ['the name of another job', edited((state) => ({ ...state, job: 'other' }))],
  ['another version', edited((state) => ({ ...state, version: 2 }))],
  ['no times', edited((state) => ({ ...state, collected_at: 'x', removal_owed: 'x', written_at: 'x' }))],
  [
    'copies in other folders',
    edited((state) => ({ ...state, shown: { '../other/state.json': 'x', 'reports/../../x': 'y' } })),
  ],
  ['copies that are pages', edited((state) => ({ ...state, shown: { 'reports/x': 'x' } }))],
  ...ranges.map(([what, make]): [string, (objects: Objects) => void] => [
    `ranges of the store ${what}`,
    ofFile(store, (file) => Object.assign(file, { pieces: { ...piecesOf(file), ranges: make(file) } })),
  ]),
  ...['../other/objects/x', 'state.json', 'objects/x', 'work.json'].map(
    (object): [string, (objects: Objects) => void] => [
      `pieces of ${object}`,
      ofFile(store, (file) =>
        Object.assign(file, { pieces: { ...piecesOf(file), objects: [{ object, bytes: file.bytes }] } }),
      ),
    ],
  ),
  [
    'an object that inflates without end',
    (objects) => {
      const bomb = Buffer.alloc(300_000_000);
      const object = `objects/${sha256(bomb)}.z`;
      objects.set(object, deflateSync(bomb));
      ofFile(store, (file) =>
        Object.assign(file, { pieces: { objects: [{ object, bytes: 10 }], ranges: [[0, 0, file.bytes]] } }),
      )(objects);
    },
  ],
];

/** @param objects of the job */
export function bucketAlterations(objects: Objects): BucketAlteration[] {
  const shown = [...objects.keys()].filter((name) => /^nightly\.duckdb$|manifest\.json$/.test(name));
  return [
    ...ofState.map(([what, make]) => ({ what: `the state has ${what}`, make })),
    ...shown.map((name) => ({
      what: `${name} is garbage`,
      make: (all: Objects) => all.set(name, Buffer.alloc(all.get(name)?.length ?? 0, 7)),
    })),
  ];
}
