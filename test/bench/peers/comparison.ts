import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { headersFor } from '../pages.js';
import type { Usage } from '../process.js';
import type { Missing, Program, Session, Work } from './programs.js';

export const phases = ['first', 'unchanged', 'changed'] as const;
export type Phase = (typeof phases)[number];

/** The usages of a program in each phase, one for each round; or the reason why there are no figures. */
export type Result =
  | { readonly name: string; readonly laterRuns: Program['laterRuns']; readonly usages: Record<Phase, Usage[]> }
  | Missing;

function isMeasured(phase: Phase, laterRuns: Program['laterRuns']): boolean {
  if (phase === 'first') return true;
  return phase === 'unchanged' ? laterRuns !== 'same' : laterRuns === 'all';
}

async function totalOf({ service, index }: Work): Promise<number> {
  const list = `${service.url}/api/indexes/${index}/profiles?limit=1&with_total=true`;
  const { total } = (await (await fetch(list, { headers: headersFor(service) })).json()) as { total: number };
  return total;
}

/** Runs all programs in turn, so that a machine that slows down slows all of them. */
export class Comparison {
  readonly #work: Work;
  readonly #usages = new Map<Program, Record<Phase, Usage[]>>();
  readonly #failed = new Map<Program, string>();

  constructor(work: Work, programs: readonly Program[]) {
    this.#work = work;
    for (const program of programs) this.#usages.set(program, { first: [], unchanged: [], changed: [] });
  }

  /** Programs that failed, or that returned another number of ids than the list has. */
  get failed(): number {
    return this.#failed.size;
  }

  /** One round: each program once in each phase. `folder` is gone afterwards. */
  async round(folder: string): Promise<void> {
    const sessions = new Map<Program, Session>();
    for (const program of this.#usages.keys()) {
      const own = join(folder, String(sessions.size));
      await mkdir(own, { recursive: true });
      sessions.set(program, await program.begin(own, this.#work));
    }
    for (const phase of phases) {
      if (phase === 'changed') await this.#work.service.control('change', { days: 1 });
      const total = await totalOf(this.#work);
      for (const [program, session] of sessions) {
        if (isMeasured(phase, program.laterRuns) && !this.#failed.has(program))
          await this.#run(program, session, phase, total);
      }
    }
    await rm(folder, { recursive: true, force: true });
  }

  async #run(program: Program, session: Session, phase: Phase, total: number): Promise<void> {
    process.stderr.write(`${phase}: ${program.name} ... `);
    try {
      const usage = await session.run();
      const count = await session.count();
      if (count !== total) throw new Error(`it returned ${count} distinct ids of ${total}`);
      this.#usages.get(program)?.[phase].push(usage);
      process.stderr.write(`${usage.cpuSeconds.toFixed(1)} CPU s\n`);
    } catch (error) {
      this.#failed.set(program, phase);
      process.stderr.write(`FAILED: ${(error as Error).message}\n`);
    }
  }

  results(): Result[] {
    return [...this.#usages].map(([program, usages]) => {
      const phase = this.#failed.get(program);
      if (phase === undefined) return { name: program.name, laterRuns: program.laterRuns, usages };
      return { name: program.name, missing: `it failed, or did not return all ids (${phase})` };
    });
  }
}
