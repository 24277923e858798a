import type { NextMap } from '../../../src/delivery/table/column-map.js';
import type { Situation } from '../../../src/delivery/table/decide.js';
import type { TableRecord } from '../../../src/delivery/table/record.js';
import type { Feed } from '../../../src/snapshot/feed.js';

export const feed = {
  version: 1,
  stream: 'members',
  store_id: 'here',
  run_id: 'run-7',
  sequence: 7,
  synced_at: '2026-01-07T00:00:00.000Z',
  rows: 10,
  key: ['id'],
  columns: [],
  definition: { tenant_id: 'acme' },
  snapshot: [],
  changes: [5, 7].map((sequence) => ({
    run_id: `run-${sequence}`,
    sequence,
    synced_at: '',
    rows: 1,
    files: [],
    sha256: [],
  })),
  complete_since: 3,
  complete_since_run: 'run-3',
} satisfies Feed;

export const record: TableRecord = {
  version: 1,
  tenant: 'acme',
  job: 'nightly',
  stores: [{ id: 'here', since: '2026-01-01T00:00:00.000Z' }],
  store_id: 'here',
  sequence: 7,
  run_id: 'run-7',
  generation: 4,
  load: '4:abc',
  stamp: '4:abc',
  mode: 'mirror',
  deletes: 'hard',
  shape: 'keyed',
  key: ['id'],
  map: new Map(),
  retired: new Map(),
  columns: new Map([
    ['id', 'text'],
    ['score', 'bigint'],
  ]),
  rows: 10,
  erased: 0,
  refused: 0,
  full_of: null,
  verified_at: null,
  delivered_at: '2026-01-07T00:00:00.000Z',
  action: 'increment',
  why: '',
  owed: null,
  pending: null,
};

export const found = {
  columns: [
    { name: 'id', type: 'text' },
    { name: 'score', type: 'bigint' },
  ],
  rows: 10,
  stamp: '4:abc',
};

export const quiet: Situation = {
  table: 'members',
  mode: 'mirror',
  deletes: 'hard',
  job: 'nightly',
  feed,
  key: ['id'],
  erasures: [],
  flags: { full: false, adopt: false, recreate: false },
  record,
  listed: 0,
  owner: undefined,
  found,
};
export const appending = { ...quiet, mode: 'append', record: { ...record, mode: 'append', shape: 'append' } } as const;
export const pending = { load: '5:x', fresh: false, added: [], widened: [], since: '2026-01-08T00:00:00.000Z' };
export const flag = (name: 'full' | 'adopt' | 'recreate') => ({ flags: { ...quiet.flags, [name]: true } });
export const same: NextMap = {
  map: new Map(),
  retired: new Map(),
  retiredForms: new Map(),
  add: [],
  widen: [],
  clear: [],
  why: [],
};
export const withRecord = (of: Situation, rest: Partial<TableRecord>): Situation => ({
  ...of,
  record: { ...(of.record as TableRecord), ...rest },
});
export const late = { number: 9, keys: ['p1'] };
