import { createHash } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { tableName } from '../config/destination-config.js';
import { CdsyncError } from '../core/errors.js';
import type { DestinationContext, TableConnector, TableDestination } from '../sdk/destination.js';
import type { Load, LoadAction, TableDescription, TargetTable } from '../sdk/load.js';
import { sameWatermark, type Watermark } from '../sdk/watermark.js';
import type { Session } from '../store/duckdb.js';
import type { Feed } from '../store/feed.js';
import { type DeliveredColumn, deliveredColumns } from './delivered-columns.js';
import type { Delivered, DeliveryContext, DeliveryProgress, DeliveryRequest } from './delivery.js';
import { type DeliveryPlan, planDelivery } from './delivery-plan.js';
import type { Handover } from './handover.js';
import { DeliveryInput, type Piece } from './input.js';
import { PieceData } from './load-data.js';
import { countRejects, type Reject, readRejects, rejectedKeys, rejectsPath, writeRejects } from './rejects.js';
import { planSchema, type SchemaPlan } from './schema-plan.js';
import { TargetNames } from './target-names.js';
import { verifyLoad } from './verify-load.js';

/** One stream on its way to its table. */
export interface TableTask {
  readonly context: DeliveryContext;
  readonly request: DeliveryRequest;
  readonly connector: TableConnector;
  readonly feed: Feed;
  readonly session: Session;
  /** Of this stream's delivery alone. */
  readonly folder: string;
  readonly progress: DeliveryProgress;
}

/** A hash of what is delivered: moves when what stands in the destination would not be what is to stand there. */
export function deliveryDefinition({ request, feed }: Pick<TableTask, 'request' | 'feed'>): string {
  const { mode, columns, table, deletes } = request.destination;
  const parts = [feed.definition, feed.key, [...columns].sort(), table, mode === 'append' ? mode : 'keyed', deletes];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
}

function hashed(parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
}

interface Loaded {
  readonly load: Load;
  readonly rows: number;
  readonly rejects: readonly Reject[];
}

/**
 * Brings one stream's table up to date, in as many attempts as it takes: each opens the destination, looks at what it has, and
 * begins the load anew.
 */
export class TableDelivery {
  readonly #task: TableTask;
  readonly #definition: string;
  readonly #table: string;
  readonly #rejects: string;
  /** A load of whose commit nothing is known. */
  #uncertain: Loaded | undefined;

  constructor(task: TableTask) {
    const { request, context, feed, connector } = task;
    this.#task = task;
    this.#definition = deliveryDefinition(task);
    const names = new TargetNames(connector.capabilities.identifiers);
    this.#table = names.give(tableName(request.destination.table, context.layout.job, feed.stream));
    this.#rejects = rejectsPath(context.layout, request.destination.name, feed.stream);
  }

  get table(): string {
    return this.#table;
  }

  get definition(): string {
    return this.#definition;
  }

  /** One attempt. */
  async attempt(options: DestinationContext): Promise<Delivered> {
    const destination = await this.#task.connector.open(options);
    try {
      return await this.#deliver(destination);
    } finally {
      await destination.close();
    }
  }

  async #deliver(destination: TableDestination): Promise<Delivered> {
    const { context, request, feed } = this.#task;
    const watermarks = await destination.watermarks();
    const watermark = this.#own(watermarks);
    if (this.#uncertain !== undefined && sameWatermark(this.#uncertain.load.after, watermark))
      return this.#finish(destination, this.#uncertain, false);
    const found = await destination.describe(this.#table);
    const waiting = await countRejects(context.layout, request.destination.name, feed.stream);
    const plan = planDelivery({
      mode: request.destination.mode,
      feed,
      definition: this.#definition,
      watermark,
      table: found === undefined ? undefined : { name: this.#table, isEmpty: found.isEmpty },
      full: request.full,
      adopt: request.adopt,
      hasRejects: waiting > 0,
    });
    if (plan.type === 'nothing') return { rows: 0, rejected: waiting };
    return this.#carryOut(destination, { plan, watermark, found, retries: waiting > 0 });
  }

  #own(watermarks: readonly Watermark[]): Watermark | undefined {
    const { request, feed } = this.#task;
    const own = watermarks.find(
      ({ destination, stream }) => destination === request.destination.name && stream === feed.stream,
    );
    const other = watermarks.find((each) => each !== own && each.table === this.#table);
    if (other === undefined || request.adopt) return own;
    throw new CdsyncError(
      `table "${this.#table}" belongs to stream "${other.stream}" of destination "${other.destination}"`,
      {
        code: 'table_taken',
        stream: feed.stream,
        hint: 'give the stream another table with `table:`, or take it over: cdsync push --adopt',
      },
    );
  }

  async #carryOut(
    destination: TableDestination,
    state: {
      readonly plan: DeliveryPlan;
      readonly watermark: Watermark | undefined;
      readonly found: TableDescription | undefined;
      readonly retries: boolean;
    },
  ): Promise<Delivered> {
    const { feed, session, folder, context, progress } = this.#task;
    progress.phase = 'preparing';
    const { schema, target } = await this.#prepare(destination, state);
    const plan: DeliveryPlan =
      schema.newVariants.length > 0 && state.plan.type === 'changes' && target.key.length > 0
        ? { type: 'everything', reason: 'variant' }
        : state.plan;
    const retried = state.retries && plan.type === 'changes' ? rejectedKeys(this.#rejects) : undefined;
    const input = await DeliveryInput.open({
      layout: context.layout,
      feed,
      session,
      folder: join(folder, 'input'),
      retried,
    });
    try {
      // A later run may remove what is only looked at after the load.
      if (this.#task.request.destination.verify === 'checksum') await input.everything();
      const pieces = await this.#pieces(input, plan);
      const isEmpty = state.found?.isEmpty !== false;
      const loaded = await this.#load(destination, { pieces, plan, isEmpty, schema, target, before: state.watermark });
      const isFirst = isEmpty && plan.type === 'everything';
      return await this.#finish(destination, loaded, isFirst, () => input.everything(), schema.columns);
    } finally {
      await input.close();
    }
  }

  async #prepare(
    destination: TableDestination,
    { watermark, found }: { readonly watermark: Watermark | undefined; readonly found: TableDescription | undefined },
  ): Promise<{ schema: SchemaPlan; target: TargetTable }> {
    const { request, connector, feed } = this.#task;
    const { columns: wanted, key } = deliveredColumns({ connector, config: request.destination, feed });
    const schema = await planSchema({
      connector,
      stream: feed.stream,
      table: this.#table,
      found,
      wanted,
      isOurs: watermark?.table === this.#table || request.adopt,
      onTypeChange: request.destination.onTypeChange,
      isEmptyColumn: (column) => destination.isColumnEmpty(this.#table, column),
    });
    const columns = schema.columns.map(({ name, mapping }) => ({ name, type: mapping.type }));
    const target: TargetTable = { name: this.#table, columns, key };
    for (const change of schema.changes) await destination.prepare(target, change);
    return { schema, target };
  }

  #pieces(input: DeliveryInput, plan: DeliveryPlan): Promise<Piece[]> {
    const { mode } = this.#task.request.destination;
    if (plan.type === 'everything') return input.everything();
    if (plan.type !== 'changes') return Promise.resolve([]);
    return mode === 'append' ? input.allChanges(plan.since) : input.foldedChanges(plan.since, mode !== 'upsert');
  }

  #action(plan: DeliveryPlan, isEmpty: boolean): LoadAction {
    const { mode, deletes } = this.#task.request.destination;
    if (mode === 'append' || plan.type === 'adopt') return { type: 'append' };
    if (plan.type === 'everything' && isEmpty) return { type: 'append' };
    if (mode === 'replace') return { type: 'replace' };
    if (plan.type === 'changes' || mode === 'upsert') return { type: 'merge', absent: 'keep' };
    return { type: 'merge', absent: deletes === 'soft' ? 'mark' : 'delete' };
  }

  #handover(action: LoadAction, { columns }: SchemaPlan, key: readonly string[]): Handover {
    const { connector, feed, request } = this.#task;
    const text = { kind: 'text' } as const;
    const op = connector.mapColumn(text, { name: '_op', type: text, duckdbType: 'VARCHAR' });
    return {
      columns,
      opType: action.type === 'merge' ? op.type : undefined,
      key: feed.key,
      marksDeletes: request.destination.deletes === 'soft' && request.destination.mode === 'mirror',
      needsKey: key.length > 0,
      keyBytes: connector.capabilities.keyBytes,
    };
  }

  async #load(
    destination: TableDestination,
    job: {
      readonly pieces: readonly Piece[];
      readonly plan: DeliveryPlan;
      readonly isEmpty: boolean;
      readonly schema: SchemaPlan;
      readonly target: TargetTable;
      readonly before: Watermark | undefined;
    },
  ): Promise<Loaded> {
    const { context, request, connector, feed, session, progress } = this.#task;
    const folder = join(this.#task.folder, 'files');
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const action = this.#action(job.plan, job.isEmpty);
    const data = new PieceData({
      session,
      pieces: job.pieces,
      handover: this.#handover(action, job.schema, job.target.key),
      capabilities: connector.capabilities,
      folder,
      onReject: request.destination.onReject,
      progress: (rows) => {
        progress.rows = rows;
      },
      // Before the commit: what is refused must be known even if this process ends right after it.
      handedOver: async (rejects) => {
        if (rejects.length === 0) return;
        await writeRejects(this.#rejects, [...(await readRejects(this.#rejects)), ...rejects]);
      },
    });
    progress.phase = 'loading';
    progress.rows = 0;
    progress.total = data.rows;
    const deliveredAt = new Date(context.clock.now()).toISOString();
    const after: Watermark = {
      destination: request.destination.name,
      stream: feed.stream,
      table: this.#table,
      storeId: feed.store_id,
      sequence: feed.sequence,
      definition: this.#definition,
      deliveredAt,
    };
    const since = job.plan.type === 'changes' ? job.plan.since : null;
    const load: Load = {
      stream: feed.stream,
      id: hashed([feed.store_id, feed.stream, since, feed.sequence, this.#definition]),
      table: job.target,
      action,
      data,
      deliveredAt,
      before: job.before,
      after,
      signal: context.signal,
    };
    try {
      await destination.load(load);
    } catch (error) {
      this.#uncertain = { load, rows: data.handedOver, rejects: data.rejects };
      throw error;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
    return { load, rows: data.handedOver, rejects: data.rejects };
  }

  async #finish(
    destination: TableDestination,
    { rows, rejects, load }: Loaded,
    isFirst: boolean,
    everything?: () => Promise<readonly Piece[]>,
    columns?: readonly DeliveredColumn[],
  ): Promise<Delivered> {
    const { request, feed, session, progress } = this.#task;
    await writeRejects(this.#rejects, rejects);
    const { mode, verify, deletes } = request.destination;
    progress.phase = 'verifying';
    await verifyLoad({
      destination,
      stream: feed.stream,
      table: load.table.name,
      mode,
      verify: verify === 'checksum' && columns === undefined ? 'count' : verify,
      isSoft: mode === 'mirror' && deletes === 'soft',
      rows: feed.rows,
      rejected: rejects.length,
      isFirst,
      columns: columns ?? [],
      session,
      everything: everything ?? (() => Promise.resolve([])),
    });
    return { rows, rejected: rejects.length };
  }
}
