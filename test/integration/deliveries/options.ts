import type { Dice } from '../incremental-runs/dice.js';
import type { Wanted } from './expected-table.js';
import type { ColumnRule } from './json-value.js';
import type { Series } from './series.js';

type Mode = Wanted['mode'];

/** The options of a series for its stream and its destination; a user may change them from run to run. */
export interface Options {
  mode: Mode;
  deletes: 'hard' | 'soft';
  strings: 'keep' | 'infer';
  /** Rules of the stream and of the destination, by attribute. */
  rules: Record<string, ColumnRule>;
  own: Record<string, { drop?: true; rename?: string }>;
  onTypeChange: 'variant_column' | 'fail';
  onReject: 'continue' | 'fail';
  verify: 'rows' | 'none';
}

const shapes: readonly (readonly [Mode, 'hard' | 'soft'])[] = [
  ['mirror', 'hard'],
  ['upsert', 'hard'],
  ['mirror', 'soft'],
  ['append', 'hard'],
  ['replace', 'hard'],
];
const salt = 'a pinch of salt for the tests';

/** The options that a series begins with. */
export function firstOptions(seed: number, dice: Dice): Options {
  const [mode, deletes] = shapes[seed % shapes.length] as (typeof shapes)[number];
  const strings = dice.once(2) ? 'infer' : 'keep';
  return {
    mode,
    deletes,
    strings,
    rules: {},
    own: {},
    onTypeChange: 'variant_column',
    onReject: 'continue',
    verify: 'rows',
  };
}

/** Changes the configuration between two runs, as a user does. */
export function changeOptions(series: Series): void {
  const { dice, options } = series;
  if (dice.once(3)) changeRule(series);
  if (dice.once(6)) {
    options.strings = options.strings === 'keep' ? 'infer' : 'keep';
    series.note(`strings: ${options.strings}`);
  }
  if (dice.once(7) && options.mode !== 'append') {
    [options.mode, options.deletes] = dice.pick(shapes.filter(([mode]) => mode !== 'append'));
    series.note(`mode: ${options.mode} ${options.deletes}`);
  }
  if (dice.once(6)) options.onTypeChange = options.onTypeChange === 'fail' ? 'variant_column' : 'fail';
  if (dice.once(8)) options.onReject = options.onReject === 'fail' ? 'continue' : 'fail';
  if (dice.once(8)) {
    options.verify = options.verify === 'rows' ? 'none' : 'rows';
    series.note(`verify: ${options.verify}`);
  }
}

function changeRule(series: Series): void {
  const { dice, options, source } = series;
  const { name, form } = dice.pick(source.columns);
  const isPlain = /^c\d+$/.test(name);
  const free: ColumnRule[] = [
    { hash: true, salt },
    { mask: 'last4' },
    { mask: 'all' },
    { drop: true },
    { track: false },
  ];
  // It would hide the column beside it too.
  if (isOneOfTwo(name)) free.splice(0, 4);
  if (isPlain) free.push({ rename: `r_${name}` });
  if (form === 'digits') free.push({ type: 'integer' });
  const choice = dice.whole(10);
  if (choice < 5) options.rules[name] = dice.pick(free);
  else if (choice < 7 && isPlain && options.rules[name] === undefined)
    options.own[name] = dice.pick([{ drop: true }, { rename: `d_${name}` }] as const);
  else {
    const [first] = Object.keys(options.rules);
    if (first !== undefined && choice < 9) delete options.rules[first];
    else for (const each of Object.keys(options.own)) delete options.own[each];
  }
  // A rule of the destination names a column that the stream has under its own name.
  for (const each of Object.keys(options.own))
    if (options.rules[each]?.drop || options.rules[each]?.rename) delete options.own[each];
  for (const [each, { track }] of Object.entries(options.rules)) if (track === false) series.loose.add(pathOf(each));
  series.note(`rules: ${JSON.stringify([options.rules, options.own])}`);
}

/** Whether another column's name may differ only in case: a rule that hides the values of one hides those of both. */
export function isOneOfTwo(name: string): boolean {
  return /^score$/i.test(name);
}

export function pathOf(attribute: string): string {
  return `attributes.${attribute}`;
}
