import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { seed } from '../fixtures/seed.js';
import { Workspace } from '../fixtures/workspace.js';
import { Dice } from './incremental-runs/dice.js';
import { type Attributes, inferredJobs } from './inferred-jobs.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10, rateLimits: { management: 0 } });
});
afterAll(() => space.close());

const { serve, configure, counts, textsOf, verified } = inferredJobs(() => space);

describe('runs with strings: keep, with infer, and with both in turns', { timeout: 300_000 }, () => {
  const families: readonly (readonly [good: readonly string[], bad: readonly string[]])[] = [
    [
      ['5', '0', '-17', '9223372036854775807'],
      ['05', '+5', '1e5', '5.0', '123456789012345678901234567890'],
    ],
    [
      ['1.50', '0.00', '-3.25'],
      ['1.5', '-0.00', '1.500', ' 1.50'],
    ],
    [
      ['8814.29', '8814.3', '12', '-0.000021', '123456789.123456'],
      ['8814.30', '1e5', '-0.0', '0.12345678901234567', '9007199254740993'],
    ],
    [
      ['true', 'false'],
      ['True', 'yes'],
    ],
    [
      ['2024-02-29', '1999-12-31'],
      ['2024-02-30', '24-01-01', '9999-12-31'],
    ],
    [
      ['24.12.2024', '01.01.2000'],
      ['1.1.2000', '2000-01-01'],
    ],
    [
      ['2024-02-29T10:00:00Z', '2000-01-01T23:59:59Z'],
      ['2024-02-29T10:00:00', '2024-02-29T24:00:00Z'],
    ],
  ];
  const person = (dice: Dice): Attributes =>
    Object.fromEntries(
      families.map(([fine, odd], index) => {
        const value = dice.once(12) ? null : dice.once(40) ? dice.pick(odd) : dice.once(200) ? 7 : dice.pick(fine);
        return [`c${index}`, value];
      }),
    );

  it.for([seed, seed + 1])('have the same rows, changes and history, text by text: seed %i', async (number) => {
    const dice = new Dice(number);
    const names = ['keep', 'infer', 'turns'] as const;
    const jobOf = new Map<string, string>();
    for (const name of names) jobOf.set(name, `night_${name}_${number}`);
    const people = new Map<string, Attributes>();
    for (let each = 0; each < 12; each += 1) people.set(`p${each}`, person(dice));
    let mode: 'keep' | 'infer' = 'keep';
    const diary: unknown[] = [];
    for (let run = 1; run <= 8; run += 1) {
      if (dice.once(2)) mode = dice.pick(['keep', 'infer']);
      for (const id of people.keys()) {
        if (dice.once(6))
          people.set(id, { ...people.get(id), ...Object.fromEntries([dice.pick(Object.entries(person(dice)))]) });
        else if (dice.once(15)) people.delete(id);
      }
      if (dice.once(2)) people.set(`n${run}`, person(dice));
      await serve(Object.fromEntries(people));
      const words = dice.once(6) ? ['--full'] : [];
      const seen: unknown[] = [];
      diary.push({ run, mode, words, people: Object.fromEntries(people) });
      for (const name of names) {
        const job = jobOf.get(name) as string;
        await configure({ strings: name === 'turns' ? mode : name, confirm_deletes: 10_000 }, { name: job });
        const counted = await counts(job, words);
        const rows = await textsOf(job, 'made');
        const changes = await textsOf(job, '(select * exclude (_run_id, _synced_at) from made__changes)');
        const past = await space.query(job, 'select count(*)::int as n from made__history');
        seen.push({ counted, rows, changes: changes.map((row) => JSON.stringify(row)).sort(), past });
        await verified(job);
      }
      expect([diary, seen[1]]).toEqual([diary, seen[0]]);
      expect([diary, seen[2]]).toEqual([diary, seen[0]]);
    }
  });
});
