import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { sha256OfFile, syncFolder } from '../../core/durable.js';
import { formatCounted } from '../../core/quantities.js';
import type { DestinationContext, FileConnector } from '../../sdk/destination.js';
import type { FileFacts, FileOp, FilePlace, FilePolicy, Made } from '../../sdk/file-destination.js';
import { type Erasure, readErasures } from '../../storage/erasures.js';
import type { Delivered, StreamTask } from '../delivery.js';
import {
  countNew,
  erasedAt,
  lastErasure,
  type Reject,
  readRejects,
  rejectsPath,
  writeRejects,
} from '../delivery-state.js';
import { DeliveryInput } from '../input.js';
import { hasOtherRules, type MadeBy, snapshotSchema } from '../records/position.js';
import { RowsToSend } from '../records/rows-to-send.js';
import { erasedSince } from '../records/wanted-keys.js';
import { type SourceColumn, wantedColumns } from '../table/columns.js';
import { lineageGap } from '../table/decide.js';
import { type PlannedDelivery, withoutTable } from '../table/dry-run.js';
import { assertDistinctNames } from '../table/name-clashes.js';
import { FileRows, type PlannedRows, selectedColumns, writtenRows } from './file-rows.js';
import {
  type ExportState,
  type FilePlan,
  notTried,
  type PlannedFile,
  plannedFolder,
  readExportState,
  triedSchema,
  writeExportState,
} from './file-state.js';
import { doneState, handedState, handOver } from './hand-over.js';
import { type FileWork, noRows, planFiles } from './plan-files.js';
import { filesOwed, removeOld, removeOwed } from './removals.js';
import { assertDistinct, assertNameFree, assertOldName } from './taken-names.js';

const ops: readonly FileOp[] = ['inserted', 'updated', 'deleted'];

/**
 * Hands one stream over as files. Name, snapshot and bytes of the files are planned in the storage folder first, so that each
 * try hands over the same bytes under the same name; only when it has succeeded does the sequence move.
 */
export class FileDelivery {
  readonly table = undefined;
  readonly #task: StreamTask<FileConnector>;
  readonly #policy: FilePolicy;
  /** The folder of the state, and of planned bytes. */
  readonly #kept: string;
  readonly #rejects: string;
  readonly #sources: readonly SourceColumn[];
  #refusedBefore: readonly Reject[] | undefined;
  /** Whether this delivery has planned its files: then `--full` and `when: always` are carried out, or on their way. */
  #isPlanned = false;
  #rows = 0;
  readonly #files: string[] = [];
  readonly #why = new Set<string>();

  constructor(task: StreamTask<FileConnector>) {
    this.#task = task;
    const { context, request, feed, connector } = task;
    this.#policy = connector.policy(request.destination.options as never);
    this.#kept = context.layout.deliveredStream(request.destination.name, feed.stream);
    this.#rejects = rejectsPath(context.layout, request.destination.name, feed.stream);
    this.#sources = selectedColumns(feed, wantedColumns(feed, request.destination.columns), this.#policy);
    assertDistinctNames(this.#sources, { stream: feed.stream });
  }

  /** One attempt: makes owed removals, hands over the files that an earlier delivery has planned, then the ones that are due. */
  async attempt(options: DestinationContext): Promise<Delivered> {
    const { context, feed, connector, request } = this.#task;
    this.#refusedBefore ??= await readRejects(this.#rejects);
    if (request.file !== undefined) await assertOldName(context.layout, request, request.file);
    const erasures = await readErasures(context.layout, feed.stream, feed.key);
    let place: FilePlace | undefined;
    const opened = async () => {
      place ??= await connector.open(options);
      return place;
    };
    try {
      const { gone, failure: earlier } = await removeOwed(this.#kept, erasures, opened);
      if (gone > 0)
        this.#why.add(
          `${formatCounted(gone, 'file')} with forgotten people had been taken away: who has them must erase them`,
        );
      const waiting = await this.#waiting(erasures);
      if (waiting !== undefined) await this.#handOver(waiting, opened);
      await this.#next(erasures, waiting, opened);
      await removeOld(this.#kept, { keep: this.#policy.keep, now: context.clock.now() }, opened, options.notice);
      // Those of earlier tries of a plan that was made again.
      const { failure } = await removeOwed(this.#kept, erasures, opened, earlier);
      const rejects = await readRejects(this.#rejects);
      return {
        ...this.#delivered(),
        ...{ refused: rejects.length, newlyRefused: countNew(rejects, this.#refusedBefore) },
        ...{ erased: failure ? undefined : lastErasure(erasures), owes: failure !== undefined },
        ...(failure === undefined ? {} : { problem: filesOwed(feed.stream, failure) }),
      };
    } finally {
      await place?.close();
    }
  }

  /** The files that were handed over. */
  async taken(): Promise<Delivered | undefined> {
    return this.#files.length === 0 ? undefined : { ...this.#delivered(), refused: 0, newlyRefused: 0 };
  }

  #delivered(): Pick<Delivered, 'rows' | 'action' | 'why' | 'files'> {
    const action = this.#files.length === 0 ? 'nothing' : 'export';
    return { rows: this.#rows, action, why: [...this.#why].join('; '), files: [...this.#files] };
  }

  #madeBy(erasures: readonly Erasure[]): MadeBy {
    const columns = this.#sources.map(({ path, as, rule, isTracked }): [string, string] => [
      path,
      `${as} ${rule}${isTracked ? '' : ' untracked'}`,
    ]);
    return { key: this.#task.feed.key, columns, erased: lastErasure(erasures) };
  }

  #asked(erasures: readonly Erasure[], waiting: FilePlan | undefined): Parameters<typeof planFiles>[1] {
    const { feed, request } = this.#task;
    // The waiting files are all that `--full` asks for, if it has the whole newest snapshot.
    const isFull = waiting?.is_whole === true && waiting.run_id === feed.run_id && waiting.name === request.file;
    const isDone = this.#isPlanned || isFull;
    return {
      ...{ feed, policy: this.#policy, now: this.#madeBy(erasures), adopt: request.adopt },
      full: request.full && !isDone,
      file: isDone ? undefined : request.file,
      isAlways: this.#policy.when === 'always' && !this.#isPlanned && waiting === undefined,
    };
  }

  /** The files that an earlier delivery has planned, made again if its rows must not go out any more; undefined if nothing waits. */
  async #waiting(erasures: readonly Erasure[]): Promise<FilePlan | undefined> {
    const { plan } = await readExportState(this.#kept);
    if (plan === null) return undefined;
    const isOld = this.#isOld(plan, erasures);
    if (!isOld && plan.files !== null && (await this.#areWhole(plan.files))) return plan;
    if (isOld) this.#why.add('planned files were made again: rules have changed, or rows were erased');
    return this.#fill(this.#again(plan, erasures));
  }

  /** Whether rows of a plan must not go out any more. */
  #isOld(plan: FilePlan, erasures: readonly Erasure[]): boolean {
    const current = this.#madeBy(erasures);
    return hasOtherRules(plan, current) || plan.erased !== current.erased;
  }

  #again(plan: FilePlan, erasures: readonly Erasure[]): FilePlan {
    // The place may have files that were tried.
    const tried = (plan.files ?? []).filter((file) => file.is_tried);
    const former = [...plan.former, ...tried.map((file) => triedSchema.parse(file))];
    const first = plan.tried ?? (tried.length === 0 ? undefined : snapshotSchema.parse(plan));
    const made = { ...snapshotSchema.parse(this.#task.feed), ...this.#madeBy(erasures) };
    return { ...plan, ...made, former, tried: first, files: null };
  }

  async #areWhole(files: readonly PlannedFile[]): Promise<boolean> {
    for (const { local, sha256, is_sent } of files) {
      if (is_sent) continue;
      const actualHash = await sha256OfFile(join(plannedFolder(this.#kept), local)).catch(() => undefined);
      if (actualHash !== sha256) return false;
    }
    return true;
  }

  /** Plans and hands over the files that are due. */
  async #next(
    erasures: readonly Erasure[],
    waiting: FilePlan | undefined,
    opened: () => Promise<FilePlace>,
  ): Promise<void> {
    const state = await readExportState(this.#kept);
    const work = planFiles(state, this.#asked(erasures, waiting));
    if (work.why !== '') this.#why.add(work.why);
    if (work.type === 'nothing') return;
    const planned = this.#newPlan(state, work, erasures);
    if (work.type === 'adopt' && this.#policy.content === 'changes') {
      // The next file still has the deletes of erasures that wait.
      await this.#skip({ ...planned, erased: (await this.#erasedAt()) ?? 0 });
      return this.#next(erasures, waiting, opened);
    }
    const plan = await this.#fill(planned, work.type === 'adopt');
    if (plan !== undefined) await this.#handOver(plan, opened);
  }

  async #erasedAt(): Promise<number | undefined> {
    return (await readExportState(this.#kept)).last?.erased ?? erasedAt(this.#task, undefined);
  }

  #newPlan(state: ExportState, { base = null, name }: FileWork, erasures: readonly Erasure[]): FilePlan {
    const { feed, context } = this.#task;
    const { number, day, day_number } = state;
    const old = state.files.find((file) => file.name === name);
    const at = old?.at ?? context.clock.now();
    return {
      ...{ ...snapshotSchema.parse(feed), ...this.#madeBy(erasures), is_whole: base === null, at },
      number: old?.number ?? number + 1,
      day_number: this.#policy.day(at) === day ? day_number + 1 : 1,
      ...(name === undefined ? {} : { name }),
      ...{ base: base && snapshotSchema.parse(base), files: null, former: [] },
    };
  }

  /**
   * Makes the files of a plan, which is in the state before the first byte is written.
   * @returns undefined if there is nothing to hand over
   */
  async #fill(plan: FilePlan, isAdopted = false): Promise<FilePlan | undefined> {
    const folder = plannedFolder(this.#kept);
    await rm(folder, { recursive: true, force: true });
    this.#isPlanned = true;
    if (isAdopted) return this.#skip(plan);
    return this.#withRows(plan, async ({ rows, parts }) => {
      const due = await this.#due(plan, parts).catch(async (error) => {
        await this.#listRejects(plan, rows, true);
        throw error;
      });
      if (due.length === 0) {
        // Rows that no file can hold are not counted.
        await this.#listRejects(plan, rows, true);
        return this.#skip(plan);
      }
      assertDistinct(
        due.map(({ op }) => this.#name(plan, op)),
        this.#task.feed.stream,
      );
      for (const { op } of due) await this.#assertNameFree(plan, op);
      await writeExportState(this.#kept, { ...(await readExportState(this.#kept)), plan });
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const made: Made[] = [];
      for (const part of due) made.push(await this.#make(plan, rows, part));
      const files = made.flatMap((part) => part.files);
      const names = files.map(({ name }) => name);
      assertDistinct(names, this.#task.feed.stream);
      const holdsNul = made.some((part) => part.holdsNul);
      await this.#listRejects(plan, rows, holdsNul);
      await syncFolder(folder);
      const filled = { ...plan, files: files.map((file) => ({ ...file, ...notTried })) };
      await writeExportState(this.#kept, { ...(await readExportState(this.#kept)), plan: filled });
      return filled;
    });
  }

  /** The files of a plan: those with rows, and those without that must be sent. @throws {CdsyncError} `no_rows` */
  async #due(plan: FilePlan, parts: PlannedRows['parts']): Promise<PlannedRows['parts']> {
    const { when, empty } = this.#policy;
    if (parts.every(({ rows }) => rows === 0)) {
      const isFirst = (await readExportState(this.#kept)).last === null;
      if (!plan.is_whole && when === 'changed' && !isFirst) return [];
      if (empty === 'fail') throw noRows(this.#task.feed, plan.is_whole);
    }
    return parts.filter(({ rows }) => rows > 0 || empty === 'send');
  }

  /** There is nothing to hand over: the earlier files count for this snapshot too. */
  async #skip(plan: FilePlan): Promise<undefined> {
    await writeExportState(this.#kept, doneState(await readExportState(this.#kept), plan));
  }

  /** The rows of a plan. */
  async #withRows<T>(plan: FilePlan, work: (planned: PlannedRows) => Promise<T>): Promise<T> {
    const { feed, session, context, folder } = this.#task;
    const input = await DeliveryInput.open({ layout: context.layout, feed, session, folder: join(folder, 'input') });
    try {
      const rowsQuery = await this.#rowsOf(plan, input);
      const rows = new FileRows(feed, this.#policy, this.#sources, rowsQuery);
      const count = (op: FileOp | undefined) => session.number(`SELECT count(*) FROM (${rows.query(op, true)})`);
      const parts: PlannedRows['parts'][number][] = [];
      for (const op of this.#policy.hasOp ? ops : [undefined]) parts.push({ op, rows: await count(op) });
      return await work({ rows, parts });
    } finally {
      await input.close();
    }
  }

  /** SQL of the rows, each key once. */
  async #rowsOf(plan: FilePlan, input: DeliveryInput): Promise<string> {
    const { feed, session, context } = this.#task;
    if (this.#policy.content === 'all') return input.snapshot();
    const { last } = await readExportState(this.#kept);
    const erasures = await readErasures(context.layout, feed.stream, feed.key);
    const { base, tried } = plan;
    const queries = await new RowsToSend(
      { session, input, feed, mode: 'mirror' },
      {
        since: base?.sequence,
        deletesSince: !base && tried && lineageGap(feed, tried) === undefined ? tried.sequence : undefined,
        refused: [],
        erased: erasedSince(erasures, (await this.#erasedAt()) ?? lastErasure(erasures), this.#task),
        isPresent: base !== null && last !== null && hasOtherRules(last, plan),
      },
    ).queries();
    if (queries.length === 0) return `SELECT * FROM (${await input.snapshot()}) WHERE false`;
    return queries.map((query) => `(${query})`).join(' UNION ALL BY NAME ');
  }

  #properties({ at, number, day_number, run_id }: FilePlan): FileFacts {
    const { layout } = this.#task.context;
    return { job: layout.job, stream: this.#task.feed.stream, run_id, at, sequence: number, day_sequence: day_number };
  }

  #name(plan: FilePlan, op: FileOp | undefined): string {
    const { connector, request } = this.#task;
    return (
      plan.name ?? connector.fileName(request.destination.options as never, this.#properties(plan), { op, part: 1 })
    );
  }

  async #assertNameFree(plan: FilePlan, op: FileOp | undefined): Promise<void> {
    const { context, request, feed } = this.#task;
    await assertNameFree(context.layout, request.destination, feed.stream, this.#name(plan, op));
  }

  /** Makes the files of one operation. */
  async #make(plan: FilePlan, rows: FileRows, part: PlannedRows['parts'][number]): Promise<Made> {
    const { connector, request, session, context, progress } = this.#task;
    const { options } = request.destination;
    progress.phase = 'preparing';
    progress.total = (progress.total ?? 0) + part.rows;
    const make = (looksForNul: boolean) =>
      connector.make(options as never, {
        ...{
          ...{ query: rows.query(part.op, looksForNul), order: rows.order },
          columns: rows.columns,
          properties: this.#properties(plan),
          op: part.op,
        },
        ...{ name: plan.name, rows: part.rows, run: (sql) => writtenRows(session, sql), signal: context.signal },
        folder: plannedFolder(this.#kept),
      });
    const made = await make(false);
    // A search through the written text costs almost nothing; a search for U+0000 in every column, a third of the work.
    return made.holdsNul ? { ...(await make(true)), holdsNul: true } : made;
  }

  /** Lists the values of a plan that its files cannot hold, in place of earlier entries of their keys. */
  async #listRejects(plan: FilePlan, rows: FileRows, looksForNul: boolean): Promise<void> {
    const { session, request } = this.#task;
    const listed = plan.is_whole ? [] : await readRejects(this.#rejects);
    const rejects = await rows.rejects(session, request.destination.onReject, { nul: looksForNul }, listed);
    const left = listed.length === 0 ? [] : await rows.without(session, listed);
    await writeRejects(this.#rejects, [...left, ...rejects]);
  }

  async #handOver(plan: FilePlan, opened: () => Promise<FilePlace>): Promise<void> {
    const work = { task: this.#task, kept: this.#kept, policy: this.#policy, properties: this.#properties(plan) };
    for await (const { name, rows, isReadBack } of handOver(plan, work, opened)) {
      if (!isReadBack) this.#why.add('not read back: the place does not let cdsync look at its files there');
      this.#files.push(name);
      this.#rows += rows;
    }
  }

  /** The plan of a delivery. Writes nothing. @throws {CdsyncError} as {@link planFiles} */
  async planned(): Promise<PlannedDelivery> {
    const { feed, context, request } = this.#task;
    const erasures = await readErasures(context.layout, feed.stream, feed.key);
    const before = await readExportState(this.#kept);
    const { plan: waiting } = before;
    if (request.file !== undefined) await assertOldName(context.layout, request, request.file);
    const files: { name: string; rows: number; bytes: number }[] = [];
    const add = (plan: FilePlan) =>
      this.#withRows(plan, async ({ rows: planned, parts }) => {
        const due = await this.#due(plan, parts);
        assertDistinct(
          due.map(({ op }) => this.#name(plan, op)),
          feed.stream,
        );
        for (const part of due) {
          await this.#assertNameFree(plan, part.op);
          const bytes = await planned.bytes(this.#task.session, part.op, part.rows);
          files.push({ name: this.#name(plan, part.op), rows: part.rows, bytes });
        }
      });
    const isRemade = waiting !== null && (waiting.files === null || this.#isOld(waiting, erasures));
    const first = isRemade ? this.#again(waiting, erasures) : waiting;
    if (first !== null && isRemade) await add(first);
    for (const { name, rows: planned, bytes, is_sent } of first?.files ?? [])
      if (!is_sent) files.push({ name, rows: planned, bytes });
    // The files after those that wait.
    const state = first === null ? before : handedState(before, first, this.#policy);
    const work = planFiles(state, this.#asked(erasures, first ?? undefined));
    if (work.type === 'write') await add(this.#newPlan(state, work, erasures));
    const insert = files.reduce((sum, file) => sum + file.rows, 0);
    const { last } = before;
    return {
      ...withoutTable,
      there: last && { generation: null, rows: null, delivered_at: null, sequence: last.sequence },
      action: files.length === 0 ? 'nothing' : 'export',
      ...{ why: work.why, rows: { insert, update: 0, delete: 0 }, files },
    };
  }
}
