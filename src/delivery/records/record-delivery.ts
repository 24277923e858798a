import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { CdsyncError } from '../../core/errors.js';
import { formatCounted } from '../../core/quantities.js';
import type { DestinationContext, OutgoingRecord, RecordConnector, RecordDestination } from '../../sdk/destination.js';
import { type Erasure, readErasures } from '../../storage/erasures.js';
import type { Delivered, StreamTask } from '../delivery.js';
import {
  countNew,
  erasedAt,
  lastErasure,
  listedRejects,
  type Reject,
  rejectsPath,
  writeRejects,
} from '../delivery-state.js';
import { DeliveryInput } from '../input.js';
import { type SourceColumn, wantedColumns } from '../table/columns.js';
import { lineageGap } from '../table/decide.js';
import { type PlannedDelivery, withoutTable } from '../table/dry-run.js';
import { assertDistinctNames } from '../table/name-clashes.js';
import { erasureRun, Outbox, type OutboxContent, outgoing, recordsSql, StoredOutbox } from './outbox.js';
import {
  hasOtherRules,
  type MadeBy,
  movePosition,
  type OutboxAgain,
  type Position,
  planOutbox,
  planRecords,
  readPosition,
  recordStateHint,
  type SnapshotId,
} from './position.js';
import { sendRecords } from './record-sender.js';
import { RowsToSend, type Selection } from './rows-to-send.js';
import { membersOf } from './template-columns.js';
import { asWanted, erasedSince } from './wanted-keys.js';

/** The records whose first requests a plan shows. */
const shownRecords = 300;

/** The parts of the next outbox. */
interface Filling {
  readonly selection: Selection;
  readonly content: OutboxContent;
  readonly replaces?: StoredOutbox | undefined;
}

/**
 * Sends one stream's changes as records. It first writes them into an outbox, and notes each acknowledgement beside it. After a
 * crash or a failed attempt it sends the rest of the outbox. If rules, erased rows or the storage folder are others by then, it makes
 * the unsent records again.
 */
export class RecordDelivery {
  readonly table = undefined;
  readonly #task: StreamTask<RecordConnector>;
  /** The folder of position and outbox. */
  readonly #kept: string;
  readonly #rejects: string;
  readonly #columns: readonly SourceColumn[];
  /** The columns that the destination uses; undefined: all. */
  readonly #used: readonly string[] | undefined;
  /** The rejects of earlier deliveries. */
  #refusedBefore: readonly Reject[] | undefined;
  #sent = 0;
  readonly #why = new Set<string>();
  /** Whether this delivery has written an outbox: then `--full` is carried out, or on its way. */
  #isFilled = false;

  constructor(task: StreamTask<RecordConnector>) {
    this.#task = task;
    const { layout } = task.context;
    const { destination } = task.request;
    this.#kept = layout.deliveredStream(destination.name, task.feed.stream);
    this.#rejects = rejectsPath(layout, destination.name, task.feed.stream);
    this.#used = task.connector.usedColumns?.(destination.options as never);
    this.#columns = wantedColumns(task.feed, destination.columns).filter(({ isDropped }) => !isDropped);
    assertDistinctNames(this.#columns, { stream: task.feed.stream });
  }

  get #outbox(): string {
    return join(this.#kept, 'outbox');
  }

  /** @throws {CdsyncError} `state_unreadable` */
  #listed(): Promise<Reject[]> {
    return listedRejects(this.#rejects, { begins: this.#task.request.full || this.#task.request.adopt });
  }

  /** One attempt: sends the rest of an earlier delivery, then the changes since. */
  async attempt(options: DestinationContext): Promise<Delivered> {
    this.#refusedBefore ??= await this.#listed();
    const erasures = await readErasures(this.#task.context.layout, this.#task.feed.stream, this.#task.feed.key);
    const waiting = await this.#waiting(erasures);
    if (waiting !== undefined) await this.#empty(waiting, options);
    const outbox = await this.#next(erasures, waiting !== undefined);
    if (outbox !== undefined) await this.#empty(outbox, options);
    const rejects = await this.#listed();
    const refused = rejects.filter(({ is_waiting }) => !is_waiting);
    const newlyRefused = countNew(refused, this.#refusedBefore, 'record');
    const counts = { refused: refused.length, waiting: rejects.length - refused.length, newlyRefused };
    const isOfErasure = ({ run_id }: Reject) => run_id.startsWith(erasureRun);
    const delivered = { ...this.#delivered(), ...counts };
    // A person whose delete was not taken is still there.
    if (!rejects.some(isOfErasure)) return { ...delivered, erased: lastErasure(erasures) };
    const owed = refused.filter(isOfErasure).length;
    return owed === 0 || newlyRefused > 0 ? delivered : { ...delivered, problem: this.#erasureOwed(owed) };
  }

  /** The problem of each delivery after the first by which the receiver did not take the delete of a forgotten person. */
  #erasureOwed(people: number): CdsyncError {
    const { feed, request } = this.#task;
    const { name } = request.destination;
    return new CdsyncError(
      `the receiver has not taken ${formatCounted(people, 'delete')} of people who were forgotten`,
      {
        code: 'removal_owed',
        stream: feed.stream,
        hint: `the reasons: cdsync rejects --destination ${name} --stream ${feed.stream}; each delivery tries again: cdsync push`,
      },
    );
  }

  /** The records that were acknowledged. */
  async taken(): Promise<Delivered | undefined> {
    return this.#sent === 0 ? undefined : { ...this.#delivered(), refused: 0, newlyRefused: 0 };
  }

  #delivered(): Pick<Delivered, 'rows' | 'action' | 'why'> {
    return { rows: this.#sent, action: this.#sent === 0 ? 'nothing' : 'append', why: [...this.#why].join('; ') };
  }

  #asked(erasures: readonly Erasure[]) {
    const { feed, request } = this.#task;
    const columns = this.#columns.map(({ path, as, rule, isTracked }): [string, string] => [
      path,
      // Of rows that changed while a column was not tracked, the receiver has an old value.
      `${as} ${rule}${isTracked ? '' : ' untracked'}`,
    ]);
    const current: MadeBy = { key: feed.key, columns, erased: lastErasure(erasures) };
    const full = request.full && !this.#isFilled;
    return { feed, now: current, full, adopt: request.adopt, members: this.#used };
  }

  /** The outbox that is left, made again if it must not be sent as it is; undefined if there is none that counts. */
  async #waiting(erasures: readonly Erasure[]): Promise<Outbox | undefined> {
    const left = await Outbox.left(this.#task.session, this.#outbox);
    if (left === undefined) return undefined;
    let next: Outbox | undefined;
    try {
      const asked = this.#asked(erasures);
      const plan = planOutbox(left.mark, asked);
      if (plan.type !== 'drop') await left.assertWhole();
      if (plan.type === 'send') next = left;
      else if (plan.type === 'again') {
        this.#why.add(`waiting records were made again: ${plan.why}`);
        next = await this.#fill(this.#again(left, plan, erasures, asked.now));
      } else await rm(this.#outbox, { recursive: true, force: true });
    } finally {
      if (next !== left) await left.close();
    }
    return next;
  }

  /** An outbox that takes the place of one that is left. */
  #again(outbox: StoredOutbox, { since, isForeign }: OutboxAgain, erasures: readonly Erasure[], by: MadeBy): Filling {
    const { mark } = outbox;
    const selection: Selection = {
      since,
      again: { outbox, isForeign },
      refused: [],
      erased: erasedSince(erasures, mark.erased, this.#task),
      isPresent: since !== undefined && hasOtherRules(mark, by),
    };
    const content = { ...this.#present(by), base: mark.base, is_whole: mark.is_whole || since === undefined };
    return { selection, content, replaces: outbox };
  }

  /** Writes the next outbox; undefined if there is nothing to send. */
  async #next(erasures: readonly Erasure[], hasSent: boolean): Promise<Outbox | undefined> {
    const asked = this.#asked(erasures);
    const position = await readPosition(this.#kept);
    const { type, why } = planRecords(position, asked);
    const refused = await this.#listed();
    if (type === 'nothing' && (refused.length === 0 || hasSent)) return undefined;
    if (why !== '') this.#why.add(why);
    if (type === 'adopt') {
      await movePosition(this.#kept, await this.#adopted(position, asked.now));
      await writeRejects(this.#rejects, []);
      return this.#next(erasures, hasSent);
    }
    const erased = await this.#erasedAt(position);
    return this.#fill(
      this.#after(type === 'everything' ? undefined : position, position, { erasures, erased }, refused),
    );
  }

  async #erasedAt(position: Position | undefined): Promise<number | undefined> {
    const { full, adopt } = this.#task.request;
    // The list of refused records has the deletes that were not taken, unless this delivery begins it again.
    return position !== undefined && !full && !adopt ? position.erased : erasedAt(this.#task, position?.erased);
  }

  /** The position from which a receiver continues. It still gets the deletes of erasures that wait. */
  async #adopted(position: Position | undefined, current: MadeBy): Promise<Position> {
    return { version: 1, ...this.#present(current), erased: (await this.#erasedAt(position)) ?? 0 };
  }

  /** An outbox of the changes after a snapshot, or of everything. */
  #after(
    since: Position | undefined,
    position: Position | undefined,
    { erasures, erased }: { readonly erasures: readonly Erasure[]; readonly erased: number | undefined },
    refused: readonly Reject[],
  ): Filling {
    const { now } = this.#asked(erasures);
    const isReached = position !== undefined && lineageGap(this.#task.feed, position) === undefined;
    const selection: Selection = {
      since: since?.sequence,
      deletesSince: since === undefined && isReached ? position.sequence : undefined,
      refused: refused.flatMap(asWanted),
      erased: erased === undefined ? [] : erasedSince(erasures, erased, this.#task),
      isPresent: since !== undefined && hasOtherRules(since, now),
    };
    return { selection, content: { ...this.#present(now), base: baseOf(position), is_whole: since === undefined } };
  }

  #present(current: MadeBy): SnapshotId & MadeBy {
    const { store_id, sequence, run_id } = this.#task.feed;
    return { store_id, sequence, run_id, ...current };
  }

  async #fill({ selection, ...filling }: Filling): Promise<Outbox> {
    const { feed, session } = this.#task;
    return this.#withQueries(selection, async (queries) => {
      const members = membersOf(this.#columns, this.#used);
      const content = { ...filling.content, members: this.#used && members.map(({ name }) => name) };
      const outbox = await Outbox.fill(session, this.#outbox, { feed, queries, members, ...filling, content });
      this.#isFilled = true;
      return outbox;
    });
  }

  async #withQueries<T>(selection: Selection, work: (queries: readonly string[]) => Promise<T>): Promise<T> {
    const { request, feed, session, context, folder } = this.#task;
    const input = await DeliveryInput.open({ layout: context.layout, feed, session, folder: join(folder, 'input') });
    try {
      const { mode } = request.destination;
      return await work(await new RowsToSend({ session, input, feed, mode }, selection).queries());
    } finally {
      await input.close();
    }
  }

  /** The plan of a delivery. Writes nothing. @throws {CdsyncError} `store_unknown`, `changes_gone`, `key_changed` */
  async planned(options: DestinationContext, showsValues: boolean): Promise<PlannedDelivery> {
    const { feed } = this.#task;
    const erasures = await readErasures(this.#task.context.layout, feed.stream, feed.key);
    const asked = this.#asked(erasures);
    const position = await readPosition(this.#kept);
    const left = await StoredOutbox.openReadOnly(this.#outbox);
    const rows = { insert: 0, update: 0, delete: 0 };
    const first: OutgoingRecord[] = [];
    const look = async (query: string) => {
      if (!showsValues || first.length >= shownRecords) return;
      for (const row of await this.#task.session.rows(query)) first.push(outgoing(row, feed.stream));
    };
    const count = (selection: Selection) =>
      this.#withQueries(selection, async (queries) => {
        for (const query of queries) {
          await this.#count(rows, `SELECT _op AS op FROM (${query})`);
          const records = recordsSql(feed, membersOf(this.#columns, this.#used), query);
          const most = shownRecords - first.length;
          await look(`SELECT 0 AS "offset", * FROM (${records}) ORDER BY sequence, op <> 'delete' LIMIT ${most}`);
        }
      });
    const why = new Set<string>();
    let reached = position;
    if (left !== undefined) {
      const use = planOutbox(left.mark, asked);
      if (use.type !== 'drop') await left.assertWhole();
      if (use.type === 'send') {
        why.add('records wait that were not sent');
        await this.#count(rows, left.unsent());
        await look(left.firstUnsent(shownRecords));
        reached = positionOf(left.mark);
      } else if (use.type === 'again') {
        why.add(`waiting records are made again: ${use.why}`);
        await count(this.#again(left, use, erasures, asked.now).selection);
        reached = { version: 1, ...this.#present(asked.now) };
      }
    }
    let plan = planRecords(reached, asked);
    const refused = await this.#listed();
    if (plan.why !== '') why.add(plan.why);
    if (plan.type === 'adopt') {
      reached = await this.#adopted(reached, asked.now);
      plan = planRecords(reached, asked);
    }
    const isRetried = plan.type === 'nothing' && refused.length > 0 && reached === position;
    if (plan.type === 'everything' || plan.type === 'changes' || isRetried) {
      const since = plan.type === 'everything' ? undefined : reached;
      const erased = await this.#erasedAt(reached);
      await count(this.#after(since, reached, { erasures, erased }, refused).selection);
    }
    const unknown = { generation: null, rows: null, delivered_at: null };
    const requests = await this.#task.connector.planRequests?.(options, rows, first);
    return {
      ...withoutTable,
      there: position === undefined ? null : { ...unknown, sequence: position.sequence },
      action: rows.insert + rows.update + rows.delete === 0 ? 'nothing' : 'append',
      why: [...why].join('; '),
      rows,
      ...(requests === undefined ? {} : { requests }),
    };
  }

  async #count(rows: PlannedDelivery['rows'], query: string): Promise<void> {
    for (const { op, n } of await this.#task.session.rows(`SELECT op, count(*) AS n FROM (${query}) GROUP BY op`))
      rows[String(op) as keyof typeof rows] += Number(n);
  }

  /** Sends the records of an outbox, moves the position, then removes the outbox. */
  async #empty(outbox: Outbox, options: DestinationContext): Promise<void> {
    const { connector, request, feed, context, progress } = this.#task;
    const { clock, signal, patienceMs } = context;
    progress.phase = 'loading';
    progress.total = outbox.mark.records;
    const before = outbox.acknowledged.count;
    const count = () => {
      progress.rows = outbox.acknowledged.count;
    };
    count();
    let destination: RecordDestination | undefined;
    let owed: ReadonlySet<string> | undefined;
    try {
      if (outbox.acknowledged.count < outbox.mark.records) {
        destination = await connector.open(options);
        const before = [...(await this.#listed()), ...outbox.acknowledged.rejects];
        owed = await sendRecords({
          owed: new Map(before.flatMap(({ key, op = 'update' }) => (key === null ? [] : [[key, op] as const]))),
          destination,
          capabilities: connector.capabilities,
          outbox,
          stream: feed.stream,
          onReject: request.destination.onReject,
          clock,
          signal,
          patienceMs,
          progress: count,
        });
      }
      assertAllAcknowledged(outbox);
      // Whatever was refused earlier is among these records, unless it is gone.
      await writeRejects(this.#rejects, lastOf(outbox.acknowledged.rejects, owed));
    } finally {
      this.#sent += outbox.acknowledged.count - before;
      await destination?.close();
      await outbox.close();
    }
    this.#sent -= outbox.acknowledged.rejects.length;
    await movePosition(this.#kept, positionOf(outbox.mark));
    await rm(this.#outbox, { recursive: true, force: true });
  }
}

/** Refuses to count an outbox as sent if the results do not add up to the records that were written into it. */
function assertAllAcknowledged({ acknowledged, mark }: Outbox): void {
  if (acknowledged.count === mark.records) return;
  throw new CdsyncError(
    `${acknowledged.count} of the ${mark.records} records of the outbox were acknowledged, and no others were found in it`,
    { code: 'state_unreadable', hint: recordStateHint },
  );
}

/** The state of the destination once an outbox is empty. */
function positionOf({ store_id, sequence, run_id, key, columns, erased }: OutboxContent): Position {
  return { version: 1, store_id, sequence, run_id, key, columns, erased };
}

function baseOf(position: Position | undefined): SnapshotId | null {
  if (position === undefined) return null;
  const { store_id, sequence, run_id } = position;
  return { store_id, sequence, run_id };
}

/** The last reject of each key, but for keys whose later record was taken. */
function lastOf(rejects: readonly Reject[], owed: ReadonlySet<string> | undefined): Reject[] {
  const last = new Map<unknown, Reject>();
  for (const reject of rejects)
    if (reject.key === null || owed === undefined || owed.has(reject.key)) last.set(reject.key ?? reject, reject);
  return [...last.values()];
}
