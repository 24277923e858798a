import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { expect } from 'vitest';
import type { DestinationReport, RunReport } from '../../../src/core/run-report.js';
import type { Workspace } from '../../fixtures/workspace.js';

export type Row = Record<string, unknown>;
type People = Record<string, Row>;

interface Choices {
  readonly stream?: Row;
  readonly destination?: Row;
  readonly words?: readonly string[];
  readonly push?: boolean;
  readonly storage?: string;
}

let series = 0;

/** Runs of one job whose stream goes to a table `members`. */
export class Runs {
  readonly name = `runs${++series}`;
  readonly #space: Workspace;
  readonly #at: Row;

  constructor(space: Workspace, at?: Row) {
    this.#space = space;
    this.#at = at ?? { connector: 'duckdb', path: `./${this.name}_wh.duckdb` };
  }

  async configure({ stream = {}, destination = {}, storage = './data' }: Choices): Promise<void> {
    const members = { name: 'members', source: 'index_profiles', index: 'made', ...stream };
    const destinations = [{ name: 'wh', ...this.#at, ...destination }];
    await this.#space.configure(this.name, [members], { storage, job: { destinations } });
  }

  /** A run with these people, and its delivery. @param text the JSON of a record: some numbers have more digits than JSON.stringify gives */
  async run(
    people: People,
    choices: Choices = {},
    text: (record: unknown) => string = JSON.stringify,
  ): Promise<DestinationReport | undefined> {
    await this.configure(choices);
    const records = Object.entries(people).map(([id, attributes]) => text({ id, index_id: 'made', attributes }));
    await this.#space.control('profiles', { index: 'made', records });
    const run = await this.#space.run(this.name, ['--no-push', '--accept']);
    expect([run.code, run.stderr]).toEqual([0, expect.any(String)]);
    return choices.push === false ? undefined : this.push(choices.words);
  }

  async push(words: readonly string[] = []): Promise<DestinationReport> {
    const { stdout } = await this.#space.cdsync(['push', `${this.name}.json`, '--json', '--quiet', ...words]);
    return (JSON.parse(stdout) as RunReport).jobs[0]?.destinations[0] as DestinationReport;
  }

  async sql(sql: string): Promise<Row[]> {
    const instance = await DuckDBInstance.create(join(this.#space.folder, `${this.name}_wh.duckdb`));
    const connection = await instance.connect();
    try {
      return (await connection.runAndReadAll(sql)).getRowObjectsJson() as Row[];
    } finally {
      connection.closeSync();
      instance.closeSync();
    }
  }

  /** For each key, every value in columns whose name begins so. */
  async values(beginning: string): Promise<Record<string, string[]>> {
    const rows = await this.sql('SELECT * FROM members ORDER BY id');
    const own = (row: Row) =>
      Object.entries(row).flatMap(([name, value]) =>
        name.startsWith(beginning) && value !== null ? [String(value).replaceAll('"', '')] : [],
      );
    return Object.fromEntries(rows.map((row) => [String(row.id), [...new Set(own(row))]]));
  }

  async texts(): Promise<string> {
    return JSON.stringify(await this.sql('SELECT * FROM members'));
  }

  async keys(): Promise<string[]> {
    return (await this.sql('SELECT id FROM members ORDER BY id')).map(({ id }) => String(id));
  }

  storage(folder = 'data'): string {
    return join(this.#space.folder, folder);
  }
}

export const four = (attributes: (n: number) => Row): People =>
  Object.fromEntries(['a', 'b', 'c', 'd'].map((id, index) => [id, attributes(index + 1)]));
