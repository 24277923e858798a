/** The profile of one person. `isOdd`: nested deeper than cdsync can keep, so that the record is rejected. */
interface Person {
  readonly tier: 'gold' | 'silver';
  readonly score: number;
  readonly isOdd?: true;
}

export type People = ReadonlyMap<string, Person>;

/** How the rows of a stream differ from those before. */
export interface Counts {
  readonly rows: number;
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
  readonly unchanged: number;
}

/** Another population, made of one by a number of changes, that of the odd ones included. */
export function changed(
  people: People,
  {
    inserts = 0,
    updates = 0,
    deletes = 0,
    odd = 0,
  }: { inserts?: number; updates?: number; deletes?: number; odd?: number },
  seed: number,
): People {
  const kept = [...people].filter(([, person]) => person.isOdd !== true).slice(deletes);
  const tierOf = (at: number) => ((at + seed) % 3 === 0 ? 'gold' : 'silver');
  const updated = kept.map(([id, person], at): [string, Person] =>
    at < updates ? [id, { tier: tierOf(at), score: person.score + 1 }] : [id, person],
  );
  const added = (count: number, prefix: string, more: Partial<Person> = {}) =>
    Array.from({ length: count }, (_, at): [string, Person] => [
      `${prefix}${seed}_${at}`,
      { tier: tierOf(at), score: at, ...more },
    ]);
  return new Map([...updated, ...added(inserts, 'p'), ...added(odd, 'odd', { isOdd: true })]);
}

const tooDeep = `${'['.repeat(1500)}${']'.repeat(1500)}`;

/** The records as the service gives them. */
export function recordsOf(people: People, index: string): string[] {
  return [...people].map(([id, { tier, score, isOdd }]) => {
    const attributes = `{"tier":"${tier}","score":${score}${isOdd === true ? `,"nested":${tooDeep}` : ''}}`;
    return `{"id":"${id}","index_id":"${index}","attributes":${attributes}}`;
  });
}

/** The people whose records can be kept. */
export function keepable(people: People): People {
  return new Map([...people].filter(([, { isOdd }]) => isOdd !== true));
}

export function goldOf(people: People): People {
  return new Map([...people].filter(([, { tier }]) => tier === 'gold'));
}

/** The independent count: two lists, compared by their keys. */
export function countsOf(before: People, after: People): Counts {
  const both = [...after].filter(([id]) => before.has(id));
  const text = (person: Person | undefined) => `${person?.tier} ${person?.score}`;
  const updated = both.filter(([id, person]) => text(before.get(id)) !== text(person)).length;
  return {
    rows: after.size,
    inserted: after.size - both.length,
    updated,
    deleted: before.size - both.length,
    unchanged: both.length - updated,
  };
}
