import { permissionMissing, unavailable } from '../../../src/sdk/index.js';
import { SqlDestination } from '../../../src/sdk/sql/sql-destination.js';

/** What happens at one step of a delivery. */
export interface Strike {
  /**
   * - `death`: nothing more is done, not even a rollback. - `outage`: the server is away until the next attempt.
   * - `refusal`: no table and no stage may be dropped; with `after`, once rows are staged.
   */
  readonly how: 'death' | 'outage' | 'aside' | 'refusal';
  /** The step's number; `change`: the first statement that changes the table itself, which not every database can roll back. */
  readonly step: number | 'change';
  /** Whether the step was still carried out, and its response lost. */
  readonly after: boolean;
  /** The work of another process right before rows and record are written: not later, because a transaction holds locks. */
  readonly aside?: () => Promise<void>;
}

type Session = Record<string, (...args: unknown[]) => Promise<unknown>>;

const steps = new Set(['run', 'rows', 'fill', 'begin', 'commit', 'rollback', 'number', 'cleanUp']);
let present: Strike | undefined;
let passed = 0;
let last = '';
const guarded = new WeakSet<object>();

class Killed extends Error {}

/** Creates, alters or drops a table that is not one of cdsync's own. */
const changesTable = /^\s*(CREATE|ALTER|DROP) TABLE (?!(IF (NOT )?EXISTS )?\S*_cdsync_)/i;

function failure({ how }: Strike): Error {
  if (how === 'refusal') return permissionMissing('the right to drop is missing');
  return how === 'outage' ? unavailable('the server went away') : new Killed('killed');
}

function guard(session: Session): Session {
  let isDead = false;
  let hasStaged = false;
  const stop = (strike: Strike) => {
    isDead = true;
    // A server that went away is there again for the next attempt.
    if (strike.how === 'outage') present = undefined;
    throw failure(strike);
  };
  const step = async (name: string, work: () => Promise<unknown>, words: unknown) => {
    const strike = present;
    if (isDead) throw failure(strike ?? { how: 'outage', step: 0, after: false });
    if (strike?.how === 'aside') {
      if (name === 'begin') {
        present = undefined;
        await strike.aside?.();
      }
      return work();
    }
    if (strike?.how === 'refusal') {
      hasStaged ||= name === 'fill';
      if ((hasStaged || !strike.after) && /^\s*DROP (TABLE|STAGE) /.test(String(words))) throw failure(strike);
      return work();
    }
    passed += 1;
    const isHere = strike?.step === 'change' ? changesTable.test(String(words)) : passed === strike?.step;
    if (strike === undefined || !isHere) return work();
    last = `${strike.how} ${strike.after ? 'after' : 'before'} ${name} ${String(words).slice(0, 40)}`;
    if (!strike.after) stop(strike);
    await work();
    stop(strike);
  };
  return new Proxy(session, {
    get(target, name) {
      const value = Reflect.get(target, name, target) as unknown;
      if (typeof value !== 'function') return value;
      if (!steps.has(String(name))) return value.bind(target);
      return (...args: unknown[]) => step(String(name), () => value.apply(target, args), args[0]);
    },
  });
}

/** Puts the strikes between cdsync's steps and the session that carries them out. */
export function watchSteps(): void {
  const prototype = SqlDestination.prototype as unknown as Session;
  for (const name of ['state', 'describe', 'load', 'keep', 'sums']) {
    const own = prototype[name] as (...args: unknown[]) => Promise<unknown>;
    prototype[name] = async function watched(this: { session: Session }, ...args: unknown[]) {
      if (!guarded.has(this)) {
        guarded.add(this);
        this.session = guard(this.session);
      }
      return own.apply(this, args);
    };
  }
}

/** Does the work with a strike. @returns a description of the strike; empty if the work had fewer steps */
export async function struck(strike: Strike, work: () => Promise<void>): Promise<string> {
  [present, passed, last] = [strike, 0, ''];
  try {
    await work();
  } finally {
    present = undefined;
  }
  return last;
}
