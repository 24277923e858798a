import { expect, it } from 'vitest';
import { delivered, people } from './rows.js';
import type { Workbench } from './suite.js';

/** Tests of the check, with which `cdsync check` tries a destination. */
export function checks(bench: Workbench): void {
  it('a check finds nothing lacking and writes nothing, neither in an empty place nor in a loaded one', async () => {
    const place = await bench.place();
    // Undefined if the target's contents cannot be read.
    const contents = async () => place.contents?.();
    const subject = await bench.subject({ place });
    const empty = await contents();
    expect(await subject.check()).toMatchObject({ lacks: [], error: undefined, reached: expect.any(String) });
    expect(await contents()).toEqual(empty);
    delivered(await subject.run(people(0, 10)));
    const loaded = await contents();
    if (loaded !== undefined) expect(loaded).not.toEqual(empty);
    expect(await subject.check()).toMatchObject({ lacks: [], error: undefined });
    expect(await contents()).toEqual(loaded);
  });

  it('a check names the permission that is missing, or says that only a load can show it', async ({ skip }) => {
    const place = await bench.place();
    const options = await place.withoutPermission?.();
    if (options === undefined) return skip('the place has no permissions');
    const subject = await bench.subject({ place, destination: options });
    const before = await place.contents?.();
    const { lacks, untried, error } = await subject.check();
    if (error !== undefined) {
      expect(['destination_permission', 'destination_login']).toContain(error.code);
      expect(error.hint).toBeDefined();
    } else if (lacks.length > 0) {
      for (const { message, hint } of lacks) expect([message, hint]).toEqual([expect.any(String), expect.any(String)]);
    } else expect(untried).toMatch(/\w/);
    expect(await place.contents?.()).toEqual(before);
  });
}
