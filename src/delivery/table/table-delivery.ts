import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { CdsyncError } from '../../core/errors.js';
import type { DestinationContext, TableConnector, TableDestination, TableTypes } from '../../sdk/destination.js';
import { ColumnNotWidened } from '../../sdk/errors.js';
import type { Load, StateRow } from '../../sdk/load.js';
import { removesValues } from '../../sdk/sql/statements.js';
import { type Erasure, readErasures } from '../../storage/erasures.js';
import type { Delivered, StreamTask } from '../delivery.js';
import {
  countNew,
  lastErasure,
  type Reject,
  readRejects,
  rejectsPath,
  rememberOwed,
  writeRejects,
} from '../delivery-state.js';
import { DeliveryInput, type LoadChunk } from '../input.js';
import { PieceData, rejectError } from '../load-data.js';
import { textTable } from '../text-table.js';
import { newVariants } from './column-map.js';
import { isOldCopy } from './decide.js';
import { type PlannedDelivery, plannedDelivery } from './dry-run.js';
import { erasedKeys, handoverOf, loadOf, unsentRejects } from './load-task.js';
import { removalOwed } from './owed.js';
import { leftOutReason, planTable, stateKey, type TablePlan, targetName } from './plan.js';
import { compareWholeTable, hasOtherRows, isDue, type TableComparison } from './read-back.js';
import { parseRecord, recordText, type TableRecord } from './record.js';

/** A load that was tried. It may have been committed although the attempt failed. */
interface Tried {
  readonly load: Load;
  readonly plan: TablePlan;
  readonly data: PieceData;
  /** The rejects that were listed before. */
  readonly before: readonly Reject[];
  /** The rejects that stay listed, besides those of the rows that are handed over. */
  readonly kept: readonly Reject[];
  /** Number of the last erasure that it carries out. */
  readonly erased: number;
}

/**
 * Updates one stream's table. Each attempt opens the destination, reads the record and the table, plans, and begins the
 * load from its beginning.
 */
export class TableDelivery {
  readonly table: string;
  /** Whether a load that may have been committed leaves something to remove. */
  owes = false;
  isReached = false;
  readonly #task: StreamTask<TableConnector>;
  readonly #rejects: string;
  #tried: Tried | undefined;
  /** Why a look at the whole table has all rows loaded again. */
  #again: string | undefined;
  /** How the whole table has differed from the snapshot. */
  #difference: string | undefined;
  /** Why something that loads have left is still there. */
  #owed: CdsyncError | undefined;
  /** Columns whose types the destination has refused to change. */
  readonly #fixed = new Set<string>();

  constructor(task: StreamTask<TableConnector>) {
    this.#task = task;
    this.table = targetName(task);
    this.#rejects = rejectsPath(task.context.layout, task.request.destination.name, task.feed.stream);
  }

  /** One attempt. A column that something of the user's holds in its type gets a variant beside it. */
  async attempt(options: DestinationContext): Promise<Delivered> {
    this.isReached = false;
    try {
      const delivered = await this.#opened(options, (destination) => this.#deliver(destination));
      return this.#owed === undefined ? delivered : { ...delivered, problem: this.#owed, owes: true };
    } catch (error) {
      if (!(error instanceof ColumnNotWidened) || this.#fixed.has(error.column)) throw error;
      this.#fixed.add(error.column);
      const { context, request } = this.#task;
      context.notice(
        `destination ${request.destination.name}: column "${error.column}" of table "${this.table}" keeps its type: ${error.message}`,
      );
      return this.attempt(options);
    }
  }

  /** The plan of a delivery. Writes nothing. */
  async planned(options: DestinationContext): Promise<PlannedDelivery> {
    return this.#opened(options, async (destination) => {
      const plan = await this.#plan(destination, await this.#erasures());
      return this.#withInput(plan, (pieces) => plannedDelivery(this.#task, plan, this.#data(plan, pieces)));
    });
  }

  /** The result of the load that was tried last, if it was committed after all. */
  async taken(options: DestinationContext): Promise<Delivered | undefined> {
    const tried = this.#tried;
    if (tried === undefined) return undefined;
    return this.#opened(options, async (destination) => {
      const { own } = await destination.state(stateKey(this.#task));
      const record = own && parseRecord(own.record, this.table);
      if (record?.load !== tried.load.id) return undefined;
      return { ...(await this.#settle(tried)), owes: record.owed !== null };
    });
  }

  async #opened<T>(options: DestinationContext, work: (destination: TableDestination) => Promise<T>): Promise<T> {
    const destination = await this.#task.connector.open(options);
    try {
      return await work(destination);
    } finally {
      await destination.close();
    }
  }

  #erasures(): Promise<Erasure[]> {
    const { context, feed } = this.#task;
    return readErasures(context.layout, feed.stream, feed.key);
  }

  async #plan(destination: TableDestination, erasures: readonly Erasure[]): Promise<TablePlan> {
    const types: TableTypes = { ...this.#task.connector, ...destination.types };
    const state = await destination.state(stateKey(this.#task));
    this.isReached = true;
    const existingTable = await destination.describe(this.table);
    const listed = (await readRejects(this.#rejects)).length;
    const [again, fixed] = [this.#again, this.#fixed];
    const ownRecord = state.own && parseRecord(state.own.record, this.table);
    const isDoubtful = ownRecord !== undefined && existingTable !== undefined && isOldCopy(ownRecord, existingTable);
    const added = isDoubtful ? ((await destination.addedColumns?.(stateKey(this.#task))) ?? []) : [];
    return planTable({ task: this.#task, types, state, found: existingTable, erasures, listed, again, fixed, added });
  }

  async #deliver(destination: TableDestination): Promise<Delivered> {
    this.#task.progress.phase = 'preparing';
    this.#owed = undefined;
    const erasures = await this.#erasures();
    const first = await this.#plan(destination, erasures);
    const plan = (await this.#removeOwed(destination, first.state.own))
      ? await this.#plan(destination, erasures)
      : first;
    const tried = this.#tried;
    if (tried !== undefined && plan.record?.load === tried.load.id)
      return this.#look(destination, plan, await this.#settle(tried));
    const { warning } = plan.decision;
    if (warning !== undefined)
      this.#task.context.notice(`warning: destination ${this.#task.request.destination.name}: ${warning}`);
    if (plan.decision.action === 'create' && plan.state.former.length > 0) this.#noticeFormer(plan);
    if (plan.decision.action === 'nothing') {
      const refused = (await readRejects(this.#rejects)).length;
      const counts = { rows: 0, refused, newlyRefused: 0, erased: lastErasure(erasures) };
      return this.#look(destination, plan, this.#delivered(plan, counts));
    }
    // Before the input is opened: the keys are looked for in one of their own, in the same folder.
    const erase = await this.#erase(plan);
    const erased = lastErasure(erasures);
    const delivered = await this.#withInput(plan, (pieces) => this.#load(destination, plan, pieces, { erase, erased }));
    return this.#look(destination, plan, delivered);
  }

  /** Removes what earlier loads have left, if the record owes that. @returns whether the record was written again without it */
  async #removeOwed(destination: TableDestination, ownRow: StateRow | undefined): Promise<boolean> {
    const record = ownRow && parseRecord(ownRow.record, this.table);
    if (ownRow === undefined || record?.owed == null || this.#owed !== undefined) return false;
    try {
      await destination.removeLeft?.(ownRow);
    } catch (error) {
      if (this.#task.context.signal.aborted) throw error;
      this.#owed = removalOwed(this.#task, { table: this.table, since: record.owed.since, error });
      return false;
    }
    await this.#keep(destination, ownRow, { ...record, owed: null });
    return true;
  }

  #keep(destination: TableDestination, before: StateRow, record: TableRecord): Promise<void> {
    const { inTurn = (work) => work() } = this.#task;
    return inTurn(() => destination.replaceRecord(before, recordText(record)));
  }

  async #load(
    destination: TableDestination,
    plan: TablePlan,
    pieces: readonly LoadChunk[],
    { erase, erased }: { readonly erase: readonly (readonly string[])[]; readonly erased: number },
  ): Promise<Delivered> {
    const { progress } = this.#task;
    const data = this.#data(plan, pieces);
    const before = await readRejects(this.#rejects);
    const unsent = plan.isEverything ? [] : await unsentRejects(this.#task, before, pieces, plan.decision.erase);
    const kept = [...unsent, ...this.#leftOut(plan)];
    const load = loadOf({ task: this.#task, plan, data, erase, erased, kept: kept.length });
    const owesBefore = this.owes;
    const finish: Load['finish'] = (outcome) => {
      this.owes = owesBefore || outcome.owes === true;
      return load.finish(outcome);
    };
    const tried = { load, plan, data, before, kept, erased };
    this.#tried = tried;
    progress.phase = 'loading';
    progress.rows = 0;
    progress.total = data.rows;
    const { context, request, feed } = this.#task;
    // If the process ends in the load, the values that it removes count as there.
    if (removesValues(load)) await rememberOwed(context.layout, request.destination.name, feed.stream);
    await this.#carryOut(destination, { ...load, finish });
    return this.#settle(tried);
  }

  async #carryOut(destination: TableDestination, load: Load): Promise<void> {
    const folder = join(this.#task.folder, 'files');
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true, mode: 0o700 });
    try {
      await destination.load(load);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  /** Notes the result of a committed load: the list of the values that the destination cannot hold. */
  async #settle({ plan, data, before, kept, erased }: Tried): Promise<Delivered> {
    const rejects = [...kept, ...data.rejects];
    if (before.length > 0 || rejects.length > 0) await writeRejects(this.#rejects, rejects);
    const newlyRefused = countNew(rejects, before);
    return this.#delivered(plan, { rows: data.handedOver, refused: rejects.length, newlyRefused, erased });
  }

  /** A reject for each column that a table of the destination cannot have. @throws {CdsyncError} `values_refused` with `on_reject: fail` */
  #leftOut({ leftOut }: TablePlan): Reject[] {
    const { connector, feed, request } = this.#task;
    const reason = leftOutReason(connector);
    const rejects = leftOut.map((column) => ({ key: null, column, reason, run_id: feed.run_id }));
    if (rejects[0] !== undefined && request.destination.onReject === 'fail') throw rejectError(rejects[0]);
    return rejects;
  }

  #noticeFormer({ state }: TablePlan): void {
    const { context, request, feed } = this.#task;
    const names = state.former.map(({ table }) => `"${table}"`).join(', ');
    context.notice(
      `destination ${request.destination.name}: stream ${feed.stream} goes to table "${this.table}" now; ${names} is no longer kept up to date, and still has personal data`,
    );
  }

  async #withInput<T>(
    plan: Pick<TablePlan, 'isEverything' | 'since'>,
    work: (pieces: readonly LoadChunk[]) => Promise<T>,
  ): Promise<T> {
    const { feed, session, folder, context, request } = this.#task;
    const input = await DeliveryInput.open({ layout: context.layout, feed, session, folder: join(folder, 'input') });
    try {
      if (plan.isEverything) return await work(await input.everything());
      return await work(plan.since === undefined ? [] : await input.changes(plan.since, request.destination.mode));
    } finally {
      await input.close();
    }
  }

  #data(plan: TablePlan, pieces: readonly LoadChunk[], refused?: ReadonlyMap<string, string>): PieceData {
    const { session, connector, request, progress, folder, rowBytes = 0 } = this.#task;
    return new PieceData({
      session,
      pieces,
      rowBytes,
      handover: handoverOf(this.#task, plan, refused),
      capabilities: connector.capabilities,
      folder: join(folder, 'files'),
      onReject: request.destination.onReject,
      progress: (rows) => {
        progress.rows = rows;
      },
    });
  }

  async #erase(plan: TablePlan): Promise<string[][]> {
    const { erase } = plan.decision;
    if (erase.length === 0) return [];
    return this.#withInput({ isEverything: true, since: undefined }, (pieces) =>
      erasedKeys(this.#task, plan, pieces, erase),
    );
  }

  /**
   * Looks at the whole table if that is due, or asked for. One that differs from the snapshot is loaded whole again; so is one that
   * cannot be compared, if the user asked.
   * @throws {CdsyncError} `delivery_differs` if it differs right after such a load
   */
  async #look(destination: TableDestination, plan: TablePlan, delivered: Delivered): Promise<Delivered> {
    const { request, context, progress } = this.#task;
    const state = () => destination.state(stateKey(this.#task));
    let { own } = await state();
    if (await this.#removeOwed(destination, own)) ({ own } = await state());
    if (own === undefined) return delivered;
    const record = parseRecord(own.record, this.table);
    const nowMs = context.clock.now();
    if (!isDue(record, request, nowMs)) return this.#withProblem(delivered);
    progress.phase = 'verifying';
    const look = await this.#compared(destination, plan, record);
    if (look.type !== 'unknown') this.#noticeUncompared(look.uncompared);
    if (look.type === 'same') {
      await this.#keep(destination, own, { ...record, verified_at: new Date(nowMs).toISOString() });
      return this.#withProblem(delivered);
    }
    if (look.type === 'unknown') return this.#unknown(destination, plan, delivered);
    if (this.#difference !== undefined) throw this.#differsAgain(look.how);
    this.#difference = look.how;
    return this.#loadedAgain(destination, delivered, `the whole table was compared: ${look.how}`);
  }

  async #compared(destination: TableDestination, plan: TablePlan, record: TableRecord): Promise<TableComparison> {
    if (hasOtherRows(this.#task, record)) return { type: 'unknown' };
    const rejects = await readRejects(this.#rejects);
    return this.#withInput({ isEverything: true, since: undefined }, async (pieces) => {
      const keys = new Map<string, string[]>();
      for (const { column, key } of rejects)
        if (column !== null && key !== null) keys.set(column, [...(keys.get(column) ?? []), key]);
      const refused = new Map<string, string>();
      for (const [column, list] of keys) refused.set(column, await textTable(this.#task.session, list));
      const data = this.#data(plan, pieces, refused);
      data.assume();
      return compareWholeTable({ task: this.#task, destination, plan, record, data });
    });
  }

  #noticeUncompared(columns: readonly string[]): void {
    if (columns.length === 0) return;
    const { request, context } = this.#task;
    const names = columns.map((name) => `"${name}"`).join(', ');
    context.notice(
      `destination ${request.destination.name}: table "${this.table}" was compared without ${names}: ${request.destination.connector.name} cannot give the text of such values. \`cdsync push --full\` writes them again`,
    );
  }

  /** Of a table that cannot be compared, only a load of all rows proves that it has them. */
  #unknown(destination: TableDestination, plan: TablePlan, delivered: Delivered): Promise<Delivered> | Delivered {
    const { request, context } = this.#task;
    if (!request.verify || plan.isEverything) return this.#withProblem(delivered);
    if (request.destination.mode !== 'append')
      return this.#loadedAgain(destination, delivered, 'asked (--verify): it has rows that the snapshot lacks');
    context.notice(
      `destination ${request.destination.name}: table "${this.table}" was not compared as a whole: in mode append it has rows of earlier runs`,
    );
    return delivered;
  }

  async #loadedAgain(destination: TableDestination, delivered: Delivered, why: string): Promise<Delivered> {
    this.#again = why;
    this.#tried = undefined;
    const again = await this.#deliver(destination);
    return { ...again, variants: [...(delivered.variants ?? []), ...(again.variants ?? [])] };
  }

  /** The result, with the difference that was found before all rows were loaded again. */
  #withProblem(delivered: Delivered): Delivered {
    if (this.#difference === undefined) return delivered;
    const problem = new CdsyncError(`table "${this.table}" was not as recorded: ${this.#difference}`, {
      code: 'table_changed',
      stream: this.#task.feed.stream,
      hint: 'all rows were loaded again; does another program write to the table?',
    });
    return { ...delivered, problem };
  }

  #differsAgain(differs: string): CdsyncError {
    return new CdsyncError(`table "${this.table}" is not as the snapshot right after it was loaded: ${differs}`, {
      code: 'delivery_differs',
      stream: this.#task.feed.stream,
      hint: 'does another program write to it? `verify_every: never` leaves out the look at the whole table',
    });
  }

  #delivered(
    { decision, record, next }: TablePlan,
    counts: Pick<Delivered, 'rows' | 'refused' | 'newlyRefused' | 'erased'>,
  ): Delivered {
    const isAppend = this.#task.request.destination.mode === 'append';
    const { action, why } = decision;
    const variants = newVariants(record?.map, next.map, this.#task.request.destination.name);
    const isSent = action === 'increment' || action === 'reload';
    return {
      ...counts,
      action: action === 'adopt' ? 'nothing' : isAppend && isSent ? 'append' : action,
      why,
      variants,
    };
  }
}
