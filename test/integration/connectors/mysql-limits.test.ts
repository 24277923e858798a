import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MariadbServer, mariadbIsInstalled, mysqlIsInstalled } from '../../fixtures/mariadb.js';
import { Workspace } from '../../fixtures/workspace.js';
import { four, Runs } from './recorded-runs.js';

const packetBytes = 1 << 20;
const options = [`--max-allowed-packet=${packetBytes}`];

/** A list in a list in a list … as a value of JSON. */
const nested = (depth: number): unknown => (depth === 0 ? 1 : [nested(depth - 1)]);

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

// MariaDB keeps JSON as text, with any number.
describe.each([
  {
    name: 'MariaDB',
    isThere: mariadbIsInstalled(),
    depth: 40,
    hasJson: false,
    start: () => MariadbServer.start(options),
  },
  {
    name: 'MySQL 9.7',
    isThere: mysqlIsInstalled(),
    depth: 110,
    hasJson: true,
    start: () => MariadbServer.startMysql(options),
  },
])('$name', ({ isThere, depth, hasJson, start }) => {
  let server: MariadbServer | undefined;
  beforeAll(async () => {
    if (isThere) server = await start();
  }, 180_000);
  afterAll(() => server?.stop());

  async function place() {
    const { options: at } = await (server as MariadbServer).place();
    const database = new URL(String(at.url)).pathname.slice(1);
    const rows = async (sql: string) => {
      await server?.query(`USE ${database}`);
      return ((await server?.rows(sql)) ?? []).map((row) => Object.fromEntries(row));
    };
    return { runs: new Runs(space, { connector: 'mysql', ...at }), rows };
  }

  it.runIf(isThere)(
    'a text beyond max_allowed_packet is NULL and listed; rows whose texts are longer together arrive',
    async () => {
      const { runs, rows } = await place();
      const people = {
        ...four((n) => ({ a: `a${n}`, b: `b${n}` })),
        long: { a: 'x'.repeat(packetBytes + 1), b: 'kept' },
        wide: { a: 'y'.repeat(700_000), b: 'z'.repeat(700_000) },
      };
      expect(await runs.run(people)).toMatchObject({
        status: 'partial',
        refused: 1,
        error: { code: 'values_refused' },
      });
      expect(
        await rows('SELECT id, length(a) AS a, length(b) AS b FROM members WHERE length(id) > 1 ORDER BY id'),
      ).toEqual([
        { id: 'long', a: null, b: '4' },
        { id: 'wide', a: '700000', b: '700000' },
      ]);
      expect(await runs.push(['--verify'])).toMatchObject({ status: 'ok', action: 'nothing', refused: 1 });
    },
    180_000,
  );

  it.runIf(isThere)(
    'JSON that the server does not take is NULL and listed, in more rows than are refused one by one',
    async () => {
      const { runs, rows } = await place();
      const deep = Object.fromEntries(
        Array.from({ length: 120 }, (_, n) => [`deep${n}`, { j: { d: nested(depth) }, k: { x: n } }]),
      );
      const people = { ...four((n) => ({ j: { d: n }, k: { x: n } })), ...deep };
      expect(await runs.run(people)).toMatchObject({ status: 'partial', refused: 120 });
      const [counts] = await rows('SELECT count(*) AS n, count(j) AS j, count(k) AS k FROM members');
      expect(counts).toEqual({ n: '124', j: '4', k: '124' });
      expect(await runs.push()).toMatchObject({ status: 'ok', action: 'nothing', refused: 120 });
    },
    180_000,
  );

  it.runIf(isThere && hasJson)(
    'a number in JSON beyond a double, or with more digits, is NULL and listed',
    async () => {
      const { runs, rows } = await place();
      const people = { ...four((n) => ({ j: [n, 'x'] })), huge: { j: [[`9`.repeat(310)], 'y'] } };
      const long = { j: [0, 'z'], k: { deep: '123456789012345678901234567891' } };
      const text = (record: unknown) => JSON.stringify(record).replace(/"(9{310}|\d{30})"/, '$1');
      expect(await runs.run({ ...people, long }, {}, text)).toMatchObject({ status: 'partial', refused: 2 });
      expect(await rows('SELECT id FROM members WHERE j IS NULL OR (id > "l" AND k IS NULL) ORDER BY id')).toEqual([
        { id: 'huge' },
        { id: 'long' },
      ]);
      expect(await runs.push()).toMatchObject({ status: 'ok', action: 'nothing' });
    },
    180_000,
  );
});
