import { cp, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { startLocalService } from '../../src/local-service/service.js';
import type { CalmSteps } from './fault.js';
import { Lane, profiles } from './lane.js';
import { type ParquetPrint, type Published, readDestination, readParquet, readPublished } from './published.js';
import { kinds, listed } from './residue.js';
import { type Situation, situations } from './situations.js';
import type { Strike } from './strike.js';

/** The rows and files that undisturbed runs leave. */
export interface Undisturbed {
  readonly published: Published;
  readonly parquet: ReadonlyMap<string, ParquetPrint>;
  /** Rows of the delivered streams. */
  readonly destination: ReadonlyMap<string, string>;
  /** Names of all files and folders, as {@link kinds} makes them. */
  readonly kinds: ReadonlySet<string>;
}

export interface Expected {
  /** The state before the run; undefined if nothing was published. */
  readonly before: Undisturbed | undefined;
  readonly after: Undisturbed;
}

/** Slows the page requests of the large list, so that a run writes a checkpoint while it reads. */
export const slowReading = { kind: 'slow', match: '/profiles', delay_ms: 90 };

const day = 86_400_000;

/** For situations that need a killed run: where it is killed. */
const killedAt: Partial<Record<Situation, Strike>> = {
  reading: {
    at: 'datasync daily/.cdsync/runs/RUN/streams/members/journal.jsonl #2',
    when: 'after',
    action: 'kill',
  },
  repair: { at: 'mkdir daily/parquet/members/snapshot/RUN #1', when: 'before', action: 'kill' },
};

export async function calmRun(lane: Lane): Promise<void> {
  const { code, stdout, stderr } = await lane.run();
  if (code !== 0) throw new Error(`an undisturbed run ended with ${code}: ${stderr}${stdout}`);
}

async function undisturbed(lane: Lane): Promise<Undisturbed> {
  const published = await readPublished(lane.jobFolder);
  if (published === undefined) throw new Error('an undisturbed run has published nothing');
  return {
    published,
    parquet: await readParquet(lane.jobFolder),
    destination: await readDestination(lane.destination),
    kinds: kinds(await listed(lane.storage)),
  };
}

/** The results of undisturbed runs, and the storage folders and services that faults start from. */
export class Baseline {
  readonly #folder: string;
  readonly #since = new Date(Date.now() - 20 * day).toISOString();
  readonly #expected = new Map<Situation, Expected>();
  readonly #steps = new Map<Situation, string[]>();
  /** The situations that are prepared in each lane: their storage folders depend on the address of the lane's service. */
  readonly #made = new Map<Lane, Set<Situation>>();
  #lanes = 0;
  #spare: Lane | undefined;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  get steps(): CalmSteps {
    return this.#steps;
  }
  get #service(): { before: string; after: string } {
    return { before: join(this.#folder, 'before.json'), after: join(this.#folder, 'after.json') };
  }
  get #daily(): string {
    return join(this.#folder, 'daily');
  }

  /** @param known the situations to try */
  static async prepare(folder: string, known: readonly Situation[] = situations): Promise<Baseline> {
    const baseline = new Baseline(folder);
    const { before, after } = baseline.#service;
    await (await startLocalService({ profiles, stateFile: after })).close();
    await cp(after, before);
    const lane = await baseline.#newLane();
    await baseline.#record(lane, known);
    baseline.#spare = lane;
    return baseline;
  }

  async #record(lane: Lane, known: readonly Situation[]): Promise<void> {
    await calmRun(lane);
    await lane.control('change', { days: 1 });
    await calmRun(lane);
    await cp(lane.storage, this.#daily, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
    const before = await undisturbed(lane);
    await cp(lane.stateFile, this.#service.before);
    await lane.control('change', { days: 1 });
    await cp(lane.stateFile, this.#service.after);
    for (const situation of known) {
      await this.arrange(lane, situation);
      const { code, stderr } = await lane.run({ strike: 'record' });
      if (code !== 0) throw new Error(`the run that is recorded ended with ${code}: ${stderr}`);
      this.#steps.set(situation, await lane.steps());
      const after = await undisturbed(lane);
      this.#expected.set(situation, { before: situation === 'first' ? undefined : before, after });
    }
  }

  knows(situation: Situation): boolean {
    return this.#expected.has(situation);
  }

  /** Opens a new lane; the first call returns the lane of the undisturbed runs. */
  async openLane(): Promise<Lane> {
    const lane = this.#spare ?? (await this.#newLane());
    this.#spare = undefined;
    return lane;
  }

  async #newLane(): Promise<Lane> {
    this.#lanes += 1;
    const folder = join(this.#folder, `lane-${this.#lanes}`);
    const lane = await Lane.open({ folder, service: this.#service, since: this.#since });
    this.#made.set(lane, new Set());
    return lane;
  }

  expected(situation: Situation): Expected {
    const expected = this.#expected.get(situation);
    if (expected === undefined) throw new Error(`nothing is known of the situation ${situation}`);
    return expected;
  }

  /** Puts a lane's storage folder and service into a situation. */
  async arrange(lane: Lane, situation: Situation): Promise<void> {
    await lane.calm();
    await lane.configure({ hasRules: situation === 'rules' });
    await rm(lane.storage, { recursive: true, force: true });
    const strike = killedAt[situation];
    if (situation === 'first') await mkdir(lane.storage);
    else if (strike === undefined) await this.#restore(this.#daily, lane);
    else {
      const made = join(lane.folder, 'templates', situation);
      if (this.#made.get(lane)?.has(situation) !== true) {
        await this.#make(lane, situation, strike);
        await cp(lane.storage, made, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
        this.#made.get(lane)?.add(situation);
      } else await this.#restore(made, lane);
    }
  }

  async #make(lane: Lane, situation: Situation, strike: Strike): Promise<void> {
    await this.#restore(this.#daily, lane);
    if (situation === 'reading') await lane.control('faults', slowReading);
    const { code, stderr } = await lane.run({ strike });
    await lane.calm();
    if (code !== null) throw new Error(`the run that was to be killed at ${strike.at} ended with ${code}: ${stderr}`);
  }

  async #restore(template: string, lane: Lane): Promise<void> {
    await cp(template, lane.storage, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
  }
}
