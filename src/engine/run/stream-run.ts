import { countLeaves, type StoredColumn } from '../../columns/columns.js';
import type { StreamConfig } from '../../config/config.js';
import { writeFileAtomically } from '../../core/durable.js';
import { asCdsyncError, type CdsyncError, interrupted } from '../../core/errors.js';
import { formatCounted } from '../../core/quantities.js';
import type { Pass, StreamReport } from '../../core/run-report.js';
import { sealedLines } from '../../core/sealed-json.js';
import type { StreamResult } from '../../pages/column-figures.js';
import type { StreamCommit } from '../../snapshot/commit.js';
import type { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { approvedFor } from '../../storage/approvals.js';
import type { Session } from '../../storage/duckdb.js';
import { heldRejectsPath, writeHeld } from '../../storage/held.js';
import { type Counters, noCounters } from '../../storage/journal.js';
import { recentReports } from '../../storage/reports.js';
import type { RunIdentity } from '../../storage/run-state.js';
import { configurationDigest } from '../column-rules.js';
import type { StreamPhase } from '../progress.js';
import type { GuardFinding, StreamOutcome } from '../report-job.js';
import type { RunContext } from '../run-context.js';
import { ReadingInvalidated } from './compare-reading.js';
import { type ComparedStream, compareStream } from './compare-stream.js';
import { evaluateGuards } from './guards.js';
import { offerTotal } from './offer-total.js';
import { type OpenedStream, openReader, openStream } from './open-stream.js';
import type { QueryInputs } from './query-reader.js';
import { noStoredKeys, type PreviousState } from './recover.js';
import type { FinishedStreamState } from './removable.js';
import type { StreamReader } from './stream-reader.js';
import { assertNamesFree, type UnknownColumn, unknownColumns, unselectedColumns } from './unknown-columns.js';

/** The stream's part of its last report: rules that matched nothing, columns that were not selected. */
async function lastReported(layout: RunContext['layout'], stream: string): Promise<StreamReport | undefined> {
  const reports = await recentReports(layout, 10);
  return reports
    .flatMap(({ jobs }) => jobs[0]?.streams ?? [])
    .find(({ name, status }) => name === stream && (status === 'ok' || status === 'held'));
}

/** One stream in a run: opened, read, compared, then committed or held. */
export class StreamRun {
  readonly outcome: StreamOutcome;
  opened: OpenedStream | undefined;
  reader: StreamReader | undefined;
  /** The streams that its query reads. */
  inputs: QueryInputs = new Map();
  #compared: ComparedStream | undefined;
  /** What passes have counted whose place a later one took. */
  #replaced: Pick<Counters, 'pages' | 'milliseconds'> = noCounters;
  readonly #replacing: Pass[] = [];
  /** Whether the held stream is on disk. */
  #isKept = false;
  readonly #context: RunContext;
  readonly #config: StreamConfig;

  constructor(context: RunContext, config: StreamConfig) {
    this.#context = context;
    this.#config = config;
    const { group } = config.reads;
    const limit = group === null ? null : { group, per_second: context.config.service.rateLimits[group] };
    this.outcome = { name: config.name, error: undefined, counters: undefined, commit: undefined, findings: [], limit };
  }

  get name(): string {
    return this.outcome.name;
  }

  get #progress() {
    return this.#context.progress.streams.find(({ name }) => name === this.name);
  }

  #show(phase: StreamPhase): void {
    const progress = this.#progress;
    if (progress !== undefined) progress.phase = phase;
  }

  async attempt(phase: 'reading' | 'comparing', work: () => Promise<void>): Promise<void> {
    if (this.outcome.error !== undefined) return;
    this.#show(phase);
    try {
      await work();
    } catch (thrown) {
      const error = asCdsyncError(thrown);
      error.stream ??= this.name;
      this.outcome.error = error;
      this.#context.failed?.(error);
      this.#show('failed');
    } finally {
      if (this.reader !== undefined) {
        const { pages, milliseconds } = this.#replaced;
        const counters = this.reader.counters();
        this.outcome.counters = {
          ...counters,
          pages: counters.pages + pages,
          milliseconds: counters.milliseconds + milliseconds,
        };
        this.outcome.passes = [...this.#replacing, ...(this.reader.passes ?? [])];
      }
      // The counters of a second reading include the first.
      this.outcome.earlier ??= this.reader?.resumed ? this.reader.earlier : undefined;
      this.outcome.split = this.reader?.split;
      this.outcome.cacheUnusedBecause = this.reader?.cacheUnusedBecause;
    }
  }

  open(before: PreviousState, session: Session): Promise<void> {
    const meter = { ...noCounters };
    this.outcome.counters = meter;
    return this.attempt('reading', async () => {
      const previous = before.streams.get(this.name);
      this.opened = await openStream(this.#context, { config: this.#config, meter, previous, session });
      const progress = this.#progress;
      if (progress === undefined) return;
      progress.limit = this.outcome.limit;
      // Until it begins to read, and knows better.
      const { source } = this.opened;
      if (source?.coverage === 'everything') progress.expectedRows = previous?.rows;
      if (source?.kind === 'keyed') progress.expectedAnswers = source.requests.length;
    });
  }

  read(run: RunIdentity, before: PreviousState, session: Session): Promise<void> {
    return this.attempt('reading', async () => {
      if (this.opened === undefined) return;
      await this.#read(this.opened, { run, before, session });
    });
  }

  async #read(
    opened: OpenedStream,
    task: {
      readonly run: RunIdentity;
      readonly before: PreviousState;
      readonly session: Session;
      readonly refusal?: string;
      /** The columns to start with, if not those of the last snapshot. */
      readonly columns?: readonly StoredColumn[] | undefined;
    },
  ): Promise<StreamReader> {
    const { before, columns = before.columns.get(this.name), ...rest } = task;
    const previous = before.streams.get(this.name);
    const reader = await openReader(this.#context, {
      ...rest,
      opened,
      previous,
      columns,
      lastValues: before.values.get(this.name) ?? [],
      splits: before.splits.get(this.name) ?? [],
      again: before.again.get(this.name) ?? noStoredKeys,
      inputs: this.inputs,
      storeId: before.id,
      duckdbVersion: before.duckdbVersion,
    });
    this.reader = reader;
    const progress = this.#progress;
    if (progress !== undefined) {
      progress.live = reader.live;
      progress.expectedRows = reader.total ?? (reader.coverage === 'everything' ? previous?.rows : undefined);
      progress.resumed = reader.resumed;
    }
    const end = progress === undefined ? undefined : offerTotal(this.#context, progress, { opened, live: reader.live });
    await reader.read().finally(end);
    this.#show('read');
    return reader;
  }

  /** Reads the stream from its start, and converts every record. The counters add its requests to those so far. */
  async #readAgain(
    opened: OpenedStream,
    run: RunIdentity,
    before: PreviousState,
    { session, columns }: { readonly session: Session; readonly columns: ReadingInvalidated['columns'] },
  ): Promise<StreamReader> {
    const first = this.reader?.counters() ?? { ...noCounters, ...opened.meter };
    await this.close();
    this.#replaced = {
      pages: this.#replaced.pages + first.pages,
      milliseconds: this.#replaced.milliseconds + first.milliseconds,
    };
    const again = { ...opened, meter: first, unfinished: undefined };
    const reader = await this.#read(again, { run, before, session, columns, refusal: 'a column got another type' });
    const { read: records } = reader.counters();
    this.#replacing.push({ reason: 'types', records, added: records });
    return reader;
  }

  compare(run: RunIdentity, before: PreviousState, store: SnapshotStore): Promise<void> {
    return this.attempt('comparing', async () => {
      const { opened } = this;
      if (opened === undefined || this.reader === undefined) return;
      const { compared, reader } = await this.#compareReading(this.reader, { opened, run, before, store });
      this.#compared = compared;
      this.outcome.commit = compared.commit;
      this.#showFigures(compared);
      const unknownNames = await this.#checkNames(opened, compared);
      this.#noteKept(compared);
      this.#noteReturned(compared);
      this.#warn(...(reader.warnings ?? []));
      const { accept, rekey, layout } = this.#context;
      const { holds, remarks } = await evaluateGuards({
        config: opened.config,
        commit: compared.commit,
        counters: reader.counters(),
        store,
        isBaseline: accept || rekey,
        ...(await approvedFor(layout, this.name)),
      });
      const inputFindings = accept ? [] : [...this.inputs.values()].flatMap(({ finding }) => finding ?? []);
      this.outcome.remarks = remarks;
      this.outcome.findings = [...unknownNames, ...inputFindings, ...holds];
      this.#show(this.isHeld ? 'held' : 'done');
    });
  }

  /** Compares a reading; if the comparison shows that it lacks values, the stream is read again, and that is compared. */
  async #compareReading(
    first: StreamReader,
    task: {
      readonly opened: OpenedStream;
      readonly run: RunIdentity;
      readonly before: PreviousState;
      readonly store: SnapshotStore;
    },
  ): Promise<{ readonly compared: ComparedStream; readonly reader: StreamReader }> {
    const { opened, run, before, store } = task;
    const { config, definition } = opened;
    for (let reader = first; ; ) {
      try {
        return {
          compared: await compareStream(this.#context, { config, reader, before, store, run, definition }),
          reader,
        };
      } catch (error) {
        if (!(error instanceof ReadingInvalidated)) throw error;
        const { columns } = error;
        reader = await this.#readAgain(opened, run, before, { session: store.session, columns });
      }
    }
  }

  #showFigures({ commit: { task } }: ComparedStream): void {
    const { inserted, updated, deleted } = task.difference;
    const progress = this.#progress;
    if (progress !== undefined) progress.figures = { rows: task.rows, inserted, updated, deleted };
    this.#show('checking');
  }

  #warn(...warnings: NonNullable<StreamOutcome['warnings']>): void {
    this.outcome.warnings = [...(this.outcome.warnings ?? []), ...warnings];
  }

  /**
   * Warns of names in the configuration that no column has.
   * @returns unknown names that hold the stream: readers must not see values that a rule should hide
   * @throws {CdsyncError} `column_name_taken`
   */
  async #checkNames({ config, rules }: OpenedStream, { commit, read }: ComparedStream): Promise<GuardFinding[]> {
    const { previous, rows } = commit.task;
    const isFirst = previous === undefined || previous.rows === 0;
    if (rows === 0) {
      const filtered = config.reads.filter.size > 0 ? ' that its filter matches' : '';
      const cause = config.reads.open === undefined ? 'the query has no rows' : `the service has no records${filtered}`;
      // The first run of a query that reads earlier rows has none to read.
      const hasNoneBefore = [...this.inputs.values()].some(({ version }) => version === '');
      if (previous === undefined && !hasNoneBefore)
        this.outcome.warnings = [{ code: 'no_rows', message: `${cause}: 0 rows` }];
      return [];
    }
    const seen = { columns: read.columns, leftOut: read.leftOut };
    const taken = assertNamesFree(rules, seen, previous?.columns);
    // Cache hits, and records of earlier runs, do not show which columns a rule drops.
    const isPart = !isFirst && (read.unchangedRows.records > 0 || commit.task.coverage === 'additions');
    const last =
      isPart || config.select !== undefined ? await lastReported(this.#context.layout, this.name) : undefined;
    const before = isPart ? new Set(last?.unmatched_rules) : undefined;
    const earlier = { before: previous?.columns, reported: last?.not_selected ?? [] };
    const { unselected, warnings } = unselectedColumns(rules, seen, earlier);
    const unknown = unknownColumns(config, rules, seen).filter(
      ({ name, isRule }) => !isRule || config.columns[name]?.drop !== true || before === undefined || before.has(name),
    );
    const holds = (column: UnknownColumn) => isFirst && column.hides;
    this.outcome.unmatchedRules = unknown.flatMap(({ name, isRule }) => (isRule ? [name] : []));
    if (unselected.length > 0) this.outcome.unselected = unselected;
    this.outcome.warnings = [...taken, ...warnings, ...unknown.filter((column) => !holds(column))];
    return unknown.filter(holds).map(({ code, message }) => ({ guard: code, message }));
  }

  #noteKept({ kept }: ComparedStream): void {
    if (kept === 0) return;
    const rows = formatCounted(kept, 'row');
    const message = `${rows} absent, but not deleted: no request can contain an id of only dots`;
    this.#warn({ code: 'delete_unconfirmed', message });
  }

  #noteReturned({ commit: { forgotten = 0 } }: ComparedStream): void {
    if (forgotten === 0) return;
    const message = `${formatCounted(forgotten, 'record')} of people who were forgotten came back from the service and ${forgotten === 1 ? 'was' : 'were'} left out: delete them there, or let one in with cdsync forget --allow KEY`;
    this.#warn({ code: 'forgotten_returned', message });
  }

  /** How many leaves the columns that were read have; 0 if the reading failed. */
  async width(): Promise<number> {
    if (this.outcome.error !== undefined || this.reader === undefined) return 0;
    return countLeaves((await this.reader.extracted().catch(() => undefined))?.columns ?? []);
  }

  /** The commit to make; undefined if the stream failed or is held. */
  get commit(): StreamCommit | undefined {
    const { error, findings, commit } = this.outcome;
    return error === undefined && findings.length === 0 ? commit : undefined;
  }

  /** The input for the column statistics of the page about the run. */
  get result(): StreamResult {
    return { name: this.name, commit: this.commit, changed: this.#compared?.changedValues };
  }

  get isHeld(): boolean {
    return this.outcome.error === undefined && this.outcome.findings.length > 0;
  }

  /** Holds the commit. */
  hold(finding: GuardFinding): void {
    this.outcome.findings = [...this.outcome.findings, finding];
    this.#show('held');
  }

  /** How it ended. */
  get end(): FinishedStreamState {
    const { name, outcome, opened } = this;
    if (this.commit !== undefined) return { name, state: 'committed' };
    if (this.isHeld) return { name, state: 'held' };
    if (opened === undefined) return { name, state: 'unopened' };
    return { name, state: outcome.error?.resumable === false ? 'wrong' : 'failed' };
  }

  /** Keeps a held stream for `cdsync approve`. */
  async keepHeld(run: RunIdentity): Promise<void> {
    const { reader, outcome } = this;
    const compared = this.#compared;
    if (compared === undefined || reader === undefined || !this.isHeld) return;
    const { previous } = compared.commit.task;
    const { covered, reading } = reader;
    const { unchangedRows, ...read } = compared.read;
    await writeHeld(this.#context.layout, {
      version: 1,
      stream: this.name,
      run_id: run.runId,
      started_at: run.startedAt,
      findings: [...outcome.findings],
      previous: previous === undefined ? null : { run_id: previous.run_id, sequence: previous.sequence },
      definition: compared.commit.definition,
      configured: configurationDigest(this.#config, this.#context.salts),
      key: [...reader.key],
      brings: reader.coverage,
      ...(covered === undefined ? {} : { covered: [...covered] }),
      ...(reading === undefined ? {} : { reading }),
      read: JSON.parse(JSON.stringify({ ...read, standing: unchangedRows })),
      passes: [...(reader.passes ?? [])],
      ...(reader.nextCache === undefined ? {} : { next_known: reader.nextCache }),
    });
    const { rejects } = compared.commit;
    if (rejects.length > 0)
      await writeFileAtomically(heldRejectsPath(this.#context.layout, run.runId, this.name), sealedLines(rejects));
    this.#isKept = true;
  }

  /** Ends the stream because the run was interrupted before its commit. A failed or held stream stays so. */
  interrupt(): void {
    if (this.outcome.error !== undefined || this.#isKept) return;
    this.outcome.error = interrupted();
    this.outcome.error.stream = this.name;
  }

  /** Fails the stream before it is opened. If it only waits for a held stream, it is skipped instead. */
  async fail(error: CdsyncError, { waits }: { waits: boolean }): Promise<void> {
    await this.attempt('reading', () => Promise.reject(error));
    if (waits) this.outcome.skipped = true;
  }

  /** Whether it was skipped because it needs a held stream. */
  get waits(): boolean {
    return this.outcome.skipped === true && this.outcome.error?.code === 'dependency';
  }

  /** Ends the reading, if there is one, and frees its memory. */
  async close(): Promise<void> {
    const { reader, commit } = this;
    this.reader = undefined;
    await reader?.close();
    const table = reader?.hashTable;
    // The commit changes the table for the next run, and frees it.
    if (table === undefined || (typeof commit?.known === 'object' && commit.known.set === table)) return;
    table.free();
    await this.#context.caches.hold(this.name, 0);
  }
}
