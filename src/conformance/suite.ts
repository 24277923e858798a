import { afterAll, beforeEach } from 'vitest';
import type { TableConnector } from '../sdk/destination.js';
import type { TableHarness, TablePlace } from './harness.js';
import { delivered } from './rows.js';
import { type SubjectOptions, TestTarget } from './test-target.js';

type Options = Partial<Omit<SubjectOptions, 'place'>> & { readonly place?: TablePlace };

/** Makes the places and jobs that a suite's tests work on, and closes them before the next test. */
export class Workbench {
  readonly harness: TableHarness;
  readonly #open: { close(): Promise<void> }[] = [];

  constructor(harness: TableHarness) {
    this.harness = harness;
    beforeEach(() => this.#clear());
    afterAll(() => this.#clear());
  }

  async #clear(): Promise<void> {
    for (const opened of this.#open.splice(0).reverse()) await opened.close();
  }

  keep<T extends { close(): Promise<void> }>(opened: T): T {
    this.#open.push(opened);
    return opened;
  }

  async place(): Promise<TablePlace> {
    return this.keep(await this.harness.place());
  }

  /** A job that delivers to an empty place. */
  async subject(options: Options = {}): Promise<TestTarget> {
    const place = options.place ?? (await this.place());
    return this.keep(await TestTarget.open({ connector: this.harness.connector, ...options, place }));
  }

  /** The same, with the rows of a query delivered. */
  async loaded(query: string, options: Options = {}): Promise<TestTarget> {
    const subject = await this.subject(options);
    delivered(await subject.run(query));
    return subject;
  }

  get connector(): TableConnector {
    return this.harness.connector;
  }

  /** Whether the connector has a mode; one that declares no modes has them all. */
  hasMode(mode: 'append' | 'upsert' | 'mirror' | 'replace'): boolean {
    return this.connector.capabilities.modes?.includes(mode) ?? true;
  }

  /** A mode of the connector that uses keys: mirror if it has that. */
  get keyed(): 'mirror' | 'upsert' | undefined {
    return (['mirror', 'upsert'] as const).find((mode) => this.hasMode(mode));
  }

  deletes(how: 'hard' | 'soft'): boolean {
    return this.hasMode('mirror') && (this.connector.capabilities.deletes?.includes(how) ?? true);
  }

  get isTransactional(): boolean {
    return this.connector.capabilities.transactions ?? true;
  }
}
