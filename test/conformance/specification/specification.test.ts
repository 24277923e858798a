import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type EntryId, entries, shownByUserInterfaceOnly } from './entries.js';
import { section1 } from './section-1.js';
import { section2 } from './section-2.js';
import { section2Security } from './section-2-security.js';
import { section3 } from './section-3.js';
import { section4Indexes } from './section-4-indexes.js';
import { section4Management } from './section-4-management.js';
import { section4Lookup, section4Realtime } from './section-4-realtime.js';
import { section4Requests } from './section-4-requests.js';
import { section4Token } from './section-4-token.js';
import { section5 } from './section-5.js';
import { section6 } from './section-6.js';
import { section7 } from './section-7.js';
import { section8 } from './section-8.js';
import { section9 } from './section-9.js';
import { Setting } from './setting.js';

const sections = [
  section1,
  section2,
  section2Security,
  section3,
  section4Requests,
  section4Indexes,
  section4Lookup,
  section4Realtime,
  section4Token,
  section4Management,
  section5,
  section6,
  section7,
  section8,
  section9,
];
const checks = new Map(sections.flatMap((section) => Object.entries(section)));
const exempt = new Map<string, string>(shownByUserInterfaceOnly.map(({ id, reason }) => [id, reason]));
const ids: readonly EntryId[] = entries.map(({ id }) => id);

let setting: Setting;
beforeAll(async () => {
  setting = await Setting.open();
});
afterAll(() => setting.close());
afterEach(() => setting.profile.clearFaults());

describe('The list of entries', () => {
  it('has each id once, and a statement for it', () => {
    expect(ids.filter((id, at) => ids.indexOf(id) !== at)).toEqual([]);
    expect(entries.filter(({ states }) => states.length < 10)).toEqual([]);
  });

  it('has a test or a reason for each entry, and never both', () => {
    expect(ids.filter((id) => checks.has(id) === exempt.has(id))).toEqual([]);
    expect([...exempt].filter(([, reason]) => reason.length < 10)).toEqual([]);
  });

  it('knows each test and each reason', () => {
    const known = new Set<string>(ids);
    const tested = [...sections.flatMap((section) => Object.keys(section)), ...exempt.keys()];
    expect(tested.filter((id) => !known.has(id))).toEqual([]);
    expect(tested.filter((id, at) => tested.indexOf(id) !== at)).toEqual([]);
  });
});

describe('The specification', () => {
  for (const { id, states } of entries) {
    if (exempt.has(id)) continue;
    it(`${id}: ${states}`, async () => {
      const check = checks.get(id);
      if (check === undefined) throw new Error(`nothing tests ${id}`);
      expect.hasAssertions();
      await check(setting);
    });
  }
});
