import fsp from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { filesHolding } from '../../fixtures/files-holding.js';
import type { Hand } from './hand.js';
import { isOneOfTwo } from './options.js';
import type { Series } from './series.js';
import { struck } from './strikes.js';

/** Two columns without rules, as the stream names them. */
function twoFree({ dice, source, options, expected }: Series): readonly [string, string] | undefined {
  const map = expected.recorded?.map ?? {};
  const free = source.columns
    .map(({ name }) => name)
    .filter((name) => options.rules[name] === undefined && options.own[name] === undefined && /^c\d+$/.test(name))
    .filter((name) => map[`attributes.${name}`]?.target === name);
  const [one, other] = dice.shuffled(free);
  return one === undefined || other === undefined ? undefined : [one, other];
}

export const renameOnto: Hand = {
  name: 'renamed onto a name',
  anywhere: true,
  async act(series) {
    const { options, dice } = series;
    const [one, other] = twoFree(series) ?? [];
    if (one === undefined || other === undefined) return;
    options.own[one] = { rename: dice.once(2) ? other : other.toUpperCase() };
    await series.configure();
    const before = await series.rowTexts();
    const { error } = await series.product.push();
    if (error?.code !== 'destination_columns') throw new Error(`two columns got one name: ${error?.code}`);
    if ((await series.rowTexts()) !== before) throw new Error('a delivery that was refused has changed rows');
    delete options.own[one];
    await series.configure();
  },
};

export const exchangeNames: Hand = {
  name: 'names exchanged',
  keyed: true,
  anywhere: true,
  async act(series) {
    const { options } = series;
    const [one, other] = twoFree(series) ?? [];
    if (one === undefined || other === undefined) return;
    options.own[one] = { rename: other };
    options.own[other] = { rename: one };
    await series.configure();
    await series.deliver();
    delete options.own[one];
    delete options.own[other];
    await series.configure();
    await series.deliver();
  },
};

/** Does work during which no file of earlier loads can be removed. */
async function withoutRemovals<T>(work: () => Promise<T>): Promise<T> {
  const { rm } = fsp;
  fsp.rm = (async (...words: Parameters<typeof rm>) => {
    if (!/[/\\]members\w*[/\\](data|manifests)[/\\]\d/.test(String(words[0]))) return rm(...words);
    throw Object.assign(new Error('EACCES'), { code: 'EACCES' });
  }) as typeof rm;
  syncBuiltinESMExports();
  try {
    return await work();
  } finally {
    fsp.rm = rm;
    syncBuiltinESMExports();
  }
}

/** A column of texts that no rule concerns. */
function freeText({ source, options }: Series): string | undefined {
  return source.columns.find(
    ({ name, form }) =>
      form === 'text' && options.rules[name] === undefined && options.own[name] === undefined && !isOneOfTwo(name),
  )?.name;
}

export const refuseRemovals: Hand = {
  name: 'removals refused',
  keyed: true,
  anywhere: true,
  may: ({ target, place }) => target.name.startsWith('files_') || place.beside !== undefined,
  async act(series) {
    const { options, product, place, table } = series;
    const column = freeText(series);
    if (column === undefined) return;
    await series.deliver();
    options.rules[column] = { hash: true, salt: 'a pinch of salt for the tests' };
    product.now += 3_600_000;
    await series.commit();
    if (place.beside === undefined) {
      const { error } = await withoutRemovals(() => series.push());
      series.note(`without removals, ${error?.code ?? 'ok'}`);
      await series.deliver();
      const left = await filesHolding(`${place.options.path}/${table}`, [`z${column}~`]);
      if (left.length > 0) throw new Error(`values that a rule hides are still in ${left.join(', ')}`);
      return;
    }
    await struck({ how: 'refusal', step: 0, after: true }, async () => {
      const { error } = await product.push();
      const left = await place.beside?.();
      series.note(`without drops, ${error?.code ?? 'ok'}, ${left?.length} tables left`);
      if (error === null && left?.length !== 0) throw new Error(`${left} are left, and nothing says so`);
    });
    await series.deliver();
    const left = await place.beside();
    if (left.length > 0) throw new Error(`tables with staged rows are still there: ${left.join(', ')}`);
  },
};
