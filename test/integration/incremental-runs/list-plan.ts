import type { Dice } from './dice.js';
import type { Copy, ListModel } from './list-model.js';
import type { ListPlan, Mishap, Move } from './list-service.js';
import { anyStyle, plainStyle } from './record-text.js';

export interface ListShape {
  /** Whether the service handles every chain of pages alike: needed where it is not certain which chains there are. */
  readonly isSteady: boolean;
  /** Whether copies of one key with different values may come in different partitions. */
  readonly isOrdered: boolean;
}

const mishaps: readonly Mishap[] = ['cut', 'broken_record', 'reset', 'unavailable'];

/** Puts further copies of some records at random positions of the list: the same bytes, or others. */
function withDuplicates(list: ListModel, copies: readonly Copy[], isOrdered: boolean, dice: Dice): Copy[] {
  const all = [...copies];
  const most = dice.pick([1, 1, 2, 6]);
  for (let each = 0; each < most && copies.length > 0; each += 1) {
    const original = dice.pick(copies);
    const other = dice.once(3) ? original : (list.variant(original, dice) ?? original);
    if (!isOrdered && other.country !== original.country) continue;
    all.splice(dice.whole(all.length + 1), 0, other);
  }
  return all;
}

/** The list some time later: a few records are gone, a few have changed, and the order may differ. */
function later(list: ListModel, copies: readonly Copy[], { isOrdered }: ListShape, dice: Dice): Copy[] {
  const all = copies.flatMap((copy) => {
    if (!dice.once(8)) return [copy];
    const changed = list.variant(copy, dice) ?? copy;
    return dice.once(3) || (!isOrdered && changed.country !== copy.country) ? [] : [changed];
  });
  return dice.once(3) ? dice.shuffled(all) : all;
}

function movesIn(list: ListModel, copies: readonly Copy[], isOrdered: boolean, dice: Dice): Move[] {
  if (copies.length === 0) return [];
  return Array.from({ length: dice.pick([1, 1, 3]) }, () => {
    const copy = dice.pick(copies);
    const put = dice.once(2) ? copy : (list.variant(copy, dice) ?? copy);
    const isPut = !dice.once(3) && (isOrdered || put.country === copy.country);
    return {
      from: 1 + dice.whole(copies.length),
      take: dice.whole(1000),
      put: isPut ? { at: dice.whole(1000), copy: put } : undefined,
    };
  });
}

/** Plans how the service serves one index in one run. */
export function planList(list: ListModel, shape: ListShape, dice: Dice): ListPlan {
  const { isSteady, isOrdered } = shape;
  const first = dice.once(3) ? withDuplicates(list, list.copies, isOrdered, dice) : list.copies;
  const isDead = !isSteady && dice.once(6);
  const happening = dice.once(6) ? 1 + dice.whole(3) : 0;
  return {
    list,
    copies: first,
    later: later(list, first, shape, dice),
    moves: !isSteady && dice.once(4) ? movesIn(list, first, isOrdered, dice) : [],
    deadFrom: isDead ? 1 + dice.whole(first.length + 1) : undefined,
    mishaps: new Map(Array.from({ length: happening }, () => [dice.whole(4) * dice.whole(8), dice.pick(mishaps)])),
    ignoresFilter: dice.once(25),
    lie: dice.once(5) ? dice.pick([null, -3, 2, 1000]) : 0,
    style: dice.once(2) ? plainStyle : anyStyle(dice),
    between: dice.once(10) ? dice.pick([', ', ' ,', ',\n', '\n,\t']) : ',',
    tokenFirst: dice.once(10),
  };
}

/** One line for people. */
export function describePlan(plan: ListPlan): string {
  const {
    list,
    copies,
    later: second,
    moves,
    deadFrom,
    mishaps: happening,
    ignoresFilter,
    lie,
    between,
    tokenFirst,
  } = plan;
  const properties = {
    records: copies.length,
    duplicates: copies.length - list.copies.length,
    moves: moves.length,
    dead: deadFrom === undefined ? undefined : `from ${deadFrom}, then ${second.length}`,
    mishaps: [...happening],
    ignoresFilter,
    lie,
    between,
    tokenFirst,
  };
  return `${list.index}: ${JSON.stringify(properties)}`;
}
