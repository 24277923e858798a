import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

type Attributes = Record<string, unknown>;

/** Attributes of a name, numbered. */
function several(name: string, count: number, value: (n: number) => unknown): Attributes {
  return Object.fromEntries(Array.from({ length: count }, (_, n) => [`${name}${n}`, value(n)]));
}

const nested = (levels: number): unknown =>
  levels === 0 ? 1 : levels % 2 === 0 ? [nested(levels - 1)] : { a: nested(levels - 1) };

/** Small data whose columns cost much: the attributes of a record; each run changes some. */
const kinds: Record<string, { rows: number; attributes: (row: number, version: number) => Attributes }> = {
  mixed: {
    rows: 1000,
    attributes: (row, version) => ({
      ...several('object', 75, (n) => ({ text: `t${row}-${n}`, number: row * n })),
      ...several('list', 75, (n) => [`x${row % 7}`, `y${n}`]),
      ...several('plain', 150, (n) => (n % 2 === 0 ? `text ${(row * n) % 977}` : row * n)),
      version: row % 50 === 0 ? version : 0,
    }),
  },
  leaves: {
    rows: 5,
    attributes: (row, version) =>
      several('object', 5, (o) => several('member', 120, (n) => (n % 2 === 0 ? `t${row}` : row + n + o + version))),
  },
  countries: {
    rows: 250,
    attributes: (row, version) => ({
      ...several('plain', 240, (n) => (n % 3 === 0 ? row + n : `v${(row * n) % 31}`)),
      languages: { [`l${row % 155}`]: `language ${row}` },
      currencies: { [`c${row % 160}`]: { name: `n${row}`, symbol: '$' } },
      name: { common: `n${row}`, native: { [`l${row % 155}`]: { official: 'o', common: 'c' } } },
      translations: several('t', 25, () => ({ official: `o${row}`, common: `c${row}` })),
      version: row % 10 === 0 ? version : 0,
    }),
  },
  objects: {
    rows: 300,
    attributes: (row, version) => ({
      items: Array.from({ length: 1000 }, (_, n) => ({
        name: `name ${(row * 7919 + n * 104729) % 100_003}`,
        quantity: (row * n) % 997,
        note: `${n}`,
      })),
      version: row % 10 === 0 ? version : 0,
    }),
  },
  deep: { rows: 3, attributes: (row, version) => ({ value: nested([90, 550, 950][row] ?? 0), version }) },
};

it.each(Object.keys(kinds))(
  'is stored and delivered at the defaults, run after run: %s',
  async (name) => {
    const { rows, attributes } = kinds[name] as (typeof kinds)[string];
    const index = { name: 'small', source: 'index_profiles', index: name, page_size: 200 };
    const destinations = [
      { name: 'warehouse', connector: 'duckdb', path: join(space.folder, `${name}.duckdb`) },
      { name: 'folder', connector: 'files', path: join(space.folder, name) },
      { name: 'csv', connector: 'files', path: join(space.folder, `${name}-csv`), format: 'csv' },
    ];
    await space.configure(name, [index], { job: { destinations, guards: { max_changed: '1000%' } } });
    for (let version = 0; version < 3; version += 1) {
      const records = Array.from({ length: rows }, (_, row) =>
        JSON.stringify({ id: `p${row}`, index_id: name, attributes: attributes(row, version) }),
      );
      await space.control('profiles', { index: name, records });
      const { destinations: delivered = [] } = await space.runWell(name);
      expect(delivered.map((each) => [each.name, each.status, each.error])).toEqual(
        destinations.map((each) => [each.name, 'ok', null]),
      );
    }
    const again = await space.runWell(name);
    expect(again.streams[0]).toMatchObject({ rows, inserted: 0, updated: 0, deleted: 0 });
    expect(again.destinations?.map(({ action }) => action)).toEqual(['nothing', 'nothing', 'nothing']);
  },
  300_000,
);

it('of 2,000 columns is loaded into files, and its changes', async () => {
  const index = { name: 'wide', source: 'index_profiles', index: 'wide', page_size: 200 };
  const destinations = [{ name: 'folder', connector: 'files', path: join(space.folder, 'wide') }];
  await space.configure('wide', [index], { job: { destinations } });
  for (const version of [0, 1]) {
    const records = Array.from({ length: 600 }, (_, row) =>
      JSON.stringify({
        id: `p${row}`,
        index_id: 'wide',
        attributes: several(
          'plain',
          2000,
          (n) => [row * n, `v${(row * n) % 977}`, row % 10 > 0 ? n / 7 : n + version][n % 3],
        ),
      }),
    );
    await space.control('profiles', { index: 'wide', records });
    const { destinations: delivered = [] } = await space.runWell('wide');
    expect(delivered.map(({ action, status, error }) => [action, status, error])).toEqual([
      [version === 0 ? 'create' : 'increment', 'ok', null],
    ]);
  }
}, 300_000);
