import type { Hand } from './hand.js';
import { isOneOfTwo } from './options.js';
import type { Series } from './series.js';

/** Puts a copy back. @returns whether its record is of a storage folder that was lost since */
type PutBack = (isAlone: boolean) => Promise<boolean>;

/** Copies a table and its record. @returns puts them back, or the table alone */
async function backUp(series: Series): Promise<PutBack> {
  const { place, target, table } = series;
  const { hands } = target;
  if (hands === undefined) throw new Error('no statements copy this table');
  const own = place.table(`${table}_bak${series.history.length}`);
  const state = place.table('_cdsync_state');
  for (const sql of hands.copy(place.table(table), own)) await place.run(sql);
  const row = (await place.rows('_cdsync_state')).find((each) => each.get('table_name') === table);
  const { stamp, store_id } = JSON.parse(String(row?.get('record'))) as { stamp: string; store_id: string };
  const [expected, users] = [series.expected.copy(), new Set(series.users)];
  return async (isAlone) => {
    if (series.table !== table) return false;
    const { store_id: present } = await series.record();
    await place.run(`DROP TABLE IF EXISTS ${place.table(table)}`);
    for (const sql of hands.copy(own, place.table(table))) await place.run(sql);
    if (hands.comment !== undefined) await place.run(hands.comment(place.table(table), `[cdsync ${stamp}]`));
    if (!isAlone) {
      const set = `version = ${row?.get('version')}, record = ${place.literal(String(row?.get('record')))}`;
      await place.run(`UPDATE ${state} SET ${set} WHERE table_name = ${place.literal(table)}`);
    }
    const recorded = isAlone ? series.expected.recorded : expected.recorded;
    series.expected = expected.copy();
    series.expected.recorded = recorded;
    series.expected.isOldCopy = isAlone;
    for (const key of series.forgotten) series.expected.erased(key);
    series.users.clear();
    for (const name of users) series.users.add(name);
    return !isAlone && store_id !== present;
  };
}

/** Changes that an earlier copy does not have: a new rule that hides a column, and a key that is forgotten. */
async function hideSince(series: Series): Promise<void> {
  const { source, options, dice } = series;
  const column = source.columns.find(
    ({ name, form }) => form === 'text' && options.rules[name] === undefined && !isOneOfTwo(name),
  );
  if (column !== undefined) options.rules[column.name] = { mask: 'all' };
  source.change();
  series.product.now += 3_600_000;
  await series.commit();
  if (dice.once(2)) await series.forget();
  await series.deliver();
}

/** Puts the copy back in place of the table, alone or with its record. */
async function putBack(series: Series, saved: PutBack, isAlone: boolean): Promise<void> {
  const { target } = series;
  if (isAlone && !target.stampsLoads && series.options.mode === 'upsert') return;
  series.note(`backup of the ${isAlone ? 'table alone' : 'table and its record'} put back`);
  const isForeign = await saved(isAlone);
  const codes = ['table_altered', 'erasures_gone', ...(isForeign ? ['storage_new'] : [])];
  // If loads stamp the table, the stamp alone shows that it is an old copy.
  const code = await series.refusedWith({ verify: !target.stampsLoads }, codes);
  if (code === undefined) return;
  series.note(`backup refused: ${code}`);
  await series.recreate();
}

export const backup: Hand = {
  name: 'backup',
  keyed: true,
  async act(series) {
    const { source, dice, history } = series;
    const saved = await backUp(series);
    const last = history.length;
    if (dice.once(2)) {
      // Only values change, so the earlier table has the same number of rows.
      for (const { name } of source.columns) source.renew(name);
      series.product.now += 3_600_000;
      await series.commit();
      await series.deliver();
      series.waiting = series.history.slice(last);
      return putBack(series, saved, true);
    }
    series.later.push(async () => {
      if (series.options.mode === 'append') return;
      const isAlone = dice.once(2);
      if (dice.once(2)) await hideSince(series);
      series.waiting = series.history.slice(last);
      await putBack(series, saved, isAlone);
    });
  },
};

/** Keeps the storage folder as it is now, and puts it back in a later run. */
async function keepStorage(series: Series): Promise<void> {
  const restore = await series.product.keepStorage();
  const kept = (await series.record()).store_id;
  const [{ last }, forgotten] = [series, series.forgotten.size];
  series.later.push(async () => {
    // The earlier folder lacks the erasures of the folder that it would replace.
    if (series.forgotten.size !== forgotten) return;
    series.note('storage put back');
    await restore();
    series.last = last;
    const { sequence, store_id, stores } = await series.record();
    // Up to another snapshot of the same number, if that is not far.
    while ((await series.product.published()).sequence < sequence - 1) {
      series.source.change();
      series.product.now += 3_600_000;
      await series.commit();
    }
    series.source.change();
    await series.recommit(store_id !== kept && stores.some(({ id }) => id === kept));
  });
}

export const storage: Hand = {
  name: 'storage kept',
  anywhere: true,
  async act(series) {
    await keepStorage(series);
    if (series.dice.once(2)) return;
    // The earlier folder is put back after one more delivery.
    series.source.change();
    series.product.now += 3_600_000;
    await series.commit();
    await series.deliver();
    await series.later.pop()?.();
  },
};

export const newStorage: Hand = {
  name: 'storage lost',
  anywhere: true,
  may: ({ isForgetting }) => !isForgetting,
  async act(series) {
    await keepStorage(series);
    await series.product.loseStorage();
    series.last = undefined;
    series.source.fill();
    await series.recommit();
  },
};
