import type { DestinationReport } from '../../../src/core/run-report.js';
import { backup, newStorage, storage } from './backup.js';
import { exchangeNames, refuseRemovals, renameOnto } from './edge-hands.js';
import { ExpectedTable } from './expected-table.js';
import type { Hand } from './hand.js';
import { pathOf } from './options.js';
import type { Series } from './series.js';
import { struck } from './strikes.js';

/** In a log, rows cannot be sent again: a person decides. */
async function decided(series: Series, code: string): Promise<void> {
  const isGone = (await series.refused(code)) === 'changes_gone';
  if (series.dice.once(2)) await series.deliver({ full: true });
  else await series.adopt(!isGone);
}

function someKeys(series: Series): string[] {
  const kept = [...series.expected.covered.keys()].filter((key) => series.last?.rows.has(key));
  return series.dice.shuffled(kept).slice(0, 2);
}

/** A column of the stream that has a place in the table, and its path. */
function someColumn({ dice, expected }: Series, kind?: string): { path: string; target: string } | undefined {
  const all = Object.entries(expected.recorded?.map ?? {}).filter(
    ([path, entry]) =>
      path.startsWith('attributes.') &&
      entry.target !== null &&
      (kind ?? entry.kind) === entry.kind &&
      entry.variant === null,
  );
  if (all.length === 0) return undefined;
  const [path, { target }] = dice.pick(all);
  return { path, target: target as string };
}

const removeRows: Hand = {
  name: 'rows deleted',
  async act(series) {
    const { place, table, expected, options, dice } = series;
    const keys = dice.shuffled([...expected.covered.keys(), ...expected.left.keys()]).slice(0, 2);
    if (keys.length === 0) return;
    const list = keys.map((key) => place.literal(key)).join(', ');
    await place.run(`DELETE FROM ${place.table(table)} WHERE id IN (${list})`);
    const isLogged = expected.log.some(({ key }) => keys.includes(key));
    expected.removed(keys);
    if (options.mode === 'append' && isLogged) await decided(series, 'table_changed');
  },
};

const emptyTable: Hand = {
  name: 'table emptied',
  async act(series) {
    const { place, table, expected, options } = series;
    const hadRows = expected.log.length > 0;
    await place.run(`DELETE FROM ${place.table(table)}`);
    expected.removed([...expected.covered.keys(), ...expected.left.keys(), ...expected.log.map(({ key }) => key)]);
    if (options.mode === 'append' && hadRows) await decided(series, 'table_changed');
  },
};

const dropTable: Hand = {
  name: 'table dropped',
  anywhere: true,
  async act({ place, table, expected, users }) {
    await place.drop(table);
    users.clear();
    expected.emptied();
  },
};

const editRows: Hand = {
  name: 'values edited',
  keyed: true,
  may: ({ expected, options }) => options.mode !== 'upsert' || expected.left.size === 0,
  async act(series) {
    const { place, table, dice } = series;
    const column = someColumn(series, 'VARCHAR');
    // Nothing compares a column that is not tracked.
    if (column === undefined || series.wanted().untracked.has(column.path)) return;
    const [one, other] = someKeys(series);
    if (one === undefined || other === undefined) return;
    const name = place.quoted(column.target);
    const of = (key: string) => `WHERE id = ${place.literal(key)}`;
    const rows = await place.rows(table);
    const [text, otherText] = [one, other].map(
      (key) => rows.find((row) => row.get('id') === key)?.get(column.target) ?? null,
    );
    const set = (value: string | null | undefined, key: string) => {
      const literal = value === null || value === undefined ? 'NULL' : place.literal(value);
      return place.run(`UPDATE ${place.table(table)} SET ${name} = ${literal} ${of(key)}`);
    };
    // No statement can name a text with U+0000 everywhere.
    if (dice.once(2) || `${text}${otherText}`.includes('\0')) await set('edited', one);
    else {
      await set(otherText, one);
      await set(text, other);
    }
    await series.deliver({ verify: true }, ['table_changed']);
  },
};

const dropColumn: Hand = {
  name: 'column dropped',
  async act(series) {
    const { place, table, expected } = series;
    const column = someColumn(series);
    if (column === undefined) return;
    await place.run(`ALTER TABLE ${place.table(table)} DROP COLUMN ${place.quoted(column.target)}`);
    expected.lostColumn(column.path);
  },
};

const alterColumn: Hand = {
  name: 'type altered',
  may: ({ target }) => target.hands?.retype !== undefined,
  async act(series) {
    const { place, table, target, dice } = series;
    const { retype, written = (type: string) => type } = target.hands ?? {};
    const column = someColumn(series, 'VARCHAR');
    if (column === undefined || retype === undefined) return;
    const alter = (type: string) => place.run(retype(place.table(table), place.quoted(column.target), type));
    const before = written(String((await place.types(table)).get(column.target)));
    await alter(target.otherText);
    await series.refused('table_altered');
    if (dice.once(2) || series.options.mode === 'append') return alter(before);
    series.expected.emptied();
    series.users.clear();
    await series.deliver({ recreate: true });
  },
};

const userColumn: Hand = {
  name: "user's column",
  async act(series) {
    const { place, table, target, users, source } = series;
    const name = source.columns.some((column) => column.name === 'mine') ? 'remark' : 'mine';
    if (users.has(name)) return;
    await place.run(`ALTER TABLE ${place.table(table)} ADD COLUMN ${place.quoted(name)} ${target.text}`);
    await place.run(`UPDATE ${place.table(table)} SET ${place.quoted(name)} = 'own' WHERE 1 = 1`);
    users.add(name);
  },
};

const trigger: Hand = {
  name: 'trigger',
  keyed: true,
  may: ({ target, options }) => target.hands?.trigger !== undefined && options.verify === 'rows',
  async act(series) {
    const { place, table, target } = series;
    const column = someColumn(series, 'VARCHAR');
    const spoiling = column && target.hands?.trigger?.(place.table(table), place.quoted(column.target));
    if (spoiling === undefined) return;
    for (const sql of spoiling.make) await place.run(sql);
    const before = await series.rowTexts();
    const report = await series.product.push();
    const isAsked =
      report.error?.code === 'values_refused' ||
      (report.error?.code === 'type_changed' && series.options.onTypeChange === 'fail');
    if (report.error?.code === 'delivery_differs') {
      if ((await series.rowTexts()) !== before) throw new Error('a delivery that was refused has changed rows');
    } else if (report.status !== 'ok' && !isAsked)
      throw new Error(`a trigger was met by ${report.error?.code}: ${report.error?.message}`);
    for (const sql of spoiling.remove) await place.run(sql);
    series.note(`trigger met: ${report.error?.code ?? report.action}`);
  },
};

const loadAll: Hand = {
  name: '--full',
  anywhere: true,
  async act(series) {
    await series.deliver({ full: true });
  },
};

const recreate: Hand = {
  name: '--recreate',
  anywhere: true,
  async act(series) {
    series.expected.emptied();
    series.users.clear();
    await series.deliver({ recreate: true });
  },
};

const otherTable: Hand = {
  name: 'other table',
  anywhere: true,
  async act(series) {
    series.table = `${series.table}_n`;
    series.expected = new ExpectedTable(series.target);
    series.users.clear();
    await series.configure();
  },
};

/** A run and its delivery, an hour after the last one. */
async function anHourLater(series: Series): Promise<void> {
  series.product.now += 3_600_000;
  await series.commit();
  await series.deliver();
}

const otherModes: Hand = {
  name: 'modes by turns',
  keyed: true,
  anywhere: true,
  async act(series) {
    const { options, dice, source } = series;
    const begins = dice.pick([
      ['upsert', 'hard'],
      ['mirror', 'soft'],
    ] as const);
    const ends = dice.pick([
      ['mirror', 'hard'],
      ['replace', 'hard'],
    ] as const);
    for (const [mode, deletes] of [begins, ends]) {
      Object.assign(options, { mode, deletes });
      series.note(`mode: ${mode} ${deletes}`);
      source.change();
      const [key] = source.rows.keys();
      if (mode === begins[0] && key !== undefined && source.rows.size > 4) source.remove(key);
      await anHourLater(series);
    }
  },
};

const otherTracking: Hand = {
  name: 'tracking by turns',
  keyed: true,
  anywhere: true,
  async act(series) {
    const { options, dice, source, loose } = series;
    const free = source.columns.filter(({ name }) => options.rules[name] === undefined);
    if (free.length === 0) return;
    const { name } = dice.pick(free);
    loose.add(pathOf(name));
    options.rules[name] = { track: false };
    await anHourLater(series);
    // Nothing else changes, so the table keeps the values of before.
    source.renew(name);
    await anHourLater(series);
    delete options.rules[name];
    await anHourLater(series);
  },
};

const secondWriter: Hand = {
  name: 'second writer',
  anywhere: true,
  async act(series) {
    const twin = await series.product.twin();
    const ofTwin = [...series.waiting];
    try {
      series.source.change();
      series.product.now += 3_600_000;
      await series.commit();
      let second: DestinationReport | undefined;
      const aside = async () => {
        second = await twin.push();
      };
      let code: string | undefined;
      await struck({ how: 'aside', step: 0, after: false, aside }, async () => {
        code = (await series.product.push()).error?.code;
      });
      const hasWritten = second !== undefined && second.status !== 'failed' && second.action !== 'nothing';
      series.note(`writers: ${code ?? 'ok'}, ${second?.error?.code ?? second?.action}`);
      if (hasWritten && code !== 'fenced') throw new Error('two deliveries wrote a table at once');
      if (!hasWritten) return;
      // Rows that have gone since keep the values that the twin wrote by the present rules; rows of a log keep the columns of then.
      series.expected.delivered(ofTwin, series.wanted());
      series.expected.logged(await series.record());
      if (series.options.mode === 'append') series.waiting = series.waiting.slice(ofTwin.length);
    } finally {
      await twin.removeTwin();
    }
  },
};

const deleteDuringLoad: Hand = {
  name: 'rows deleted during a load',
  keyed: true,
  // A DuckDB file is open to one process only.
  may: ({ target }) => target.killedAt === 'message',
  async act(series) {
    const { place, table } = series;
    const [key] = someKeys(series);
    if (key === undefined) return;
    const aside = () => place.run(`DELETE FROM ${place.table(table)} WHERE id = ${place.literal(key)}`);
    await struck({ how: 'aside', step: 0, after: false, aside }, async () => {
      series.note(`load during deletes: ${(await series.product.push()).error?.code ?? 'ok'}`);
    });
  },
};

const comment: Hand = {
  name: 'comment of another',
  may: ({ target, options }) => target.hands?.comment !== undefined && options.mode !== 'append',
  async act(series) {
    const { place, table, target, expected } = series;
    await place.run(target.hands?.comment?.(place.table(table), 'ours') ?? '');
    // The table may be a copy of any age.
    expected.isOldCopy = true;
    if ((await series.refusedWith({}, ['erasures_gone'])) !== undefined) await series.deliver({ adopt: true });
  },
};

const view: Hand = {
  name: 'view',
  async act(series) {
    const { place, table } = series;
    const columns = ['id', ...Object.values(series.expected.recorded?.map ?? {}).map(({ target }) => target)];
    const names = [...new Set(columns)].flatMap((name) => (name === null ? [] : [place.quoted(name)]));
    const own = place.table(`${table}_seen`);
    await place.run(`CREATE VIEW ${own} AS SELECT ${names.join(', ')} FROM ${place.table(table)}`);
    await series.deliver();
    await place.run(`DROP VIEW ${own}`);
  },
};

const lostRecord: Hand = {
  name: 'record deleted',
  keyed: true,
  // Only columns of the same name and type are taken over.
  may: ({ expected: { recorded }, types, options }) =>
    Object.keys(recorded?.retired ?? {}).length === 0 &&
    Object.entries(recorded?.map ?? {}).every(([path, entry]) => {
      const name = path.replace(/^attributes\./, '');
      const { rename = name, drop = false } = { ...options.rules[name], ...options.own[name] };
      const isSame = entry.as === rename && drop === (entry.target === null);
      return isSame && entry.variant === null && entry.kind === types.get(path);
    }),
  async act(series) {
    const { place, table, expected } = series;
    const own = `table_name = ${place.literal(table)}`;
    await place.run(`DELETE FROM ${place.table('_cdsync_state')} WHERE ${own}`);
    await series.refused('table_not_ours');
    expected.recorded = undefined;
    await series.deliver({ adopt: true });
  },
};

const all: readonly Hand[] = [
  ...[
    otherModes,
    removeRows,
    emptyTable,
    dropTable,
    editRows,
    dropColumn,
    alterColumn,
    userColumn,
    trigger,
    loadAll,
    recreate,
  ],
  ...[
    otherTracking,
    otherTable,
    backup,
    storage,
    newStorage,
    secondWriter,
    deleteDuringLoad,
    comment,
    view,
    lostRecord,
    renameOnto,
    exchangeNames,
    refuseRemovals,
  ],
];

/** Only these, by their names, if a search for a cause asks for that. */
const only = process.env.CDSYNC_TEST_DELIVERIES_HANDS?.split(',');

/** The next of them, or what follows from one of an earlier run. Series of successive seeds try all of them. */
export async function hands(series: Series): Promise<void> {
  const { dice, options, later, target } = series;
  if (later.length > 0 && dice.once(3)) return later.splice(dice.whole(later.length), 1)[0]?.();
  const isAppend = options.mode === 'append';
  const isPossible = (hand: Hand) =>
    (only?.includes(hand.name) ?? true) &&
    !(isAppend && hand.keyed) &&
    (hand.anywhere || target.hands !== undefined) &&
    (hand.may?.(series) ?? true);
  const possible = all.filter(isPossible);
  const hand = possible[series.turn % possible.length];
  series.turn += 1;
  if (hand === undefined) return;
  series.note(hand.name);
  await hand.act(series);
}
