import { Draws, hashText } from '../data/hash.js';

/** An item of a list, and the data template that a filter can name but the item does not show. */
export interface ListedThing {
  readonly shown: { readonly id: string; readonly name: string; readonly [field: string]: unknown };
  readonly template: string | undefined;
}

interface Kind {
  readonly prefix: string;
  readonly first: number;
  /** Whether each thing has a data template. */
  readonly templates: boolean;
  fields(number: number, draws: Draws): Record<string, unknown>;
}

const subjects = ['Spring', 'Welcome', 'Win-back', 'Birthday', 'Loyalty', 'Outdoor', 'Clearance', 'Köln', 'Newsletter'];
const audiences = ['members', 'VIPs', 'new customers', 'lapsed customers', 'families', 'store visitors'];
/** The first segments have these names. Real-time segments are not in this list, and have other ids. */
const fixedSegments = ['VIP', 'Lapsed', 'Gold'];

const kinds = {
  campaigns: {
    prefix: 'cmp',
    first: 40,
    templates: true,
    fields: (number: number) =>
      number % 4 === 0 ? {} : { deliver_at: new Date(Date.UTC(2026, number % 12, 1 + (number % 28), 9)).toISOString() },
  },
  campaignDrafts: {
    prefix: 'draft',
    first: 12,
    templates: true,
    fields: () => ({}),
  },
  segments: {
    prefix: 'seg',
    first: 25,
    templates: false,
    fields: (_: number, draws: Draws) => ({ status: draws.chance(0.9) ? 'active' : 'paused' }),
  },
} satisfies Record<string, Kind>;

export type NamedList = keyof typeof kinds;

function idOf(list: NamedList, number: number): string {
  return `${kinds[list].prefix}-${String(number + 1).padStart(4, '0')}`;
}

/** A list after a number of days: each day adds one thing, renames one and removes one. */
export function namedList(list: NamedList, tenant: string, seed: number, days: number): ListedThing[] {
  const kind: Kind = kinds[list];
  const versions = new Map<number, number>();
  for (let number = 0; number < kind.first; number += 1) versions.set(number, 0);
  for (let day = 1; day <= days; day += 1) {
    // Examples name the first ones: they stay unchanged.
    const old = [...versions.keys()].filter((number) => number >= fixedSegments.length);
    versions.delete(old[(day * 5) % old.length] as number);
    const left = [...versions.keys()].filter((number) => number >= fixedSegments.length);
    const renamed = left[(day * 3) % left.length] as number;
    versions.set(renamed, (versions.get(renamed) ?? 0) + 1);
    versions.set(kind.first + day - 1, 0);
  }
  return [...versions].map(([number, version]) => {
    const draws = new Draws(hashText(`${list} ${tenant} ${seed} ${number}`));
    const fixed = list === 'segments' ? fixedSegments[number] : undefined;
    const name =
      fixed ?? `${draws.pick(subjects)} for ${draws.pick(audiences)}${version === 0 ? '' : ` (${version + 1})`}`;
    return {
      shown: { id: idOf(list, number), name, ...kind.fields(number, draws) },
      template: kind.templates ? `ddt-${(number % 3) + 1}` : undefined,
    };
  });
}
