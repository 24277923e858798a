import { join } from 'node:path';
import { tableName } from '../../config/destination-config.js';
import type { DestinationContext, TableConnector, TableDestination } from '../../sdk/former/destination.js';
import type { TableDescription, TargetTable } from '../../sdk/former/load.js';
import { sameWatermark, type Watermark } from '../../sdk/former/watermark.js';
import { readErasures } from '../../storage/erasures.js';
import type { Delivered, StreamTask } from '../delivery.js';
import { readDeliveryState } from '../delivery-state.js';
import { DeliveryInput, type LoadChunk } from '../input.js';
import { TargetNames } from '../target-names.js';
import { deliveredColumns } from './delivered-columns.js';
import { tableDefinition } from './delivery-definition.js';
import { type DeliveryPlan, planDelivery, planWithVariants } from './delivery-plan.js';
import { ownWatermark } from './own-watermark.js';
import {
  countRejects,
  readRejects,
  rejectedKeys,
  rejectsPath,
  tellRejects,
  type Waiting,
  waitingIn,
  withTold,
  writeRejects,
} from './rejects.js';
import { planSchema, type SchemaPlan } from './schema-plan.js';
import { TableLoad } from './table-load.js';
import { verifyLoad } from './verify-load.js';

/** What an attempt found in the destination, and its plan. */
interface Situation {
  readonly plan: DeliveryPlan;
  readonly watermark: Watermark | undefined;
  readonly found: TableDescription | undefined;
  /** Whether rows wait that the destination refused earlier. */
  readonly retries: boolean;
}

/**
 * Brings one stream's table up to date. Each attempt opens the destination, finds out what it has, plans the delivery and starts
 * the load from its beginning.
 */
export class TableDelivery {
  readonly table: string;
  readonly definition: string;
  readonly #task: StreamTask<TableConnector>;
  readonly #rejects: string;
  /** The load of the previous attempt. It may have been committed although the attempt failed. */
  #tried: TableLoad | undefined;
  /** Number of the stream's last erasure. */
  #erasures = 0;

  constructor(task: StreamTask<TableConnector>) {
    const { request, context, feed, connector } = task;
    this.#task = task;
    this.definition = tableDefinition(feed, request.destination);
    const names = new TargetNames(connector.capabilities.identifiers);
    this.table = names.give(tableName(request.destination.table, context.layout.job, feed.stream));
    this.#rejects = rejectsPath(context.layout, request.destination.name, feed.stream);
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

  /** @returns undefined if no load was tried, or none was committed */
  async taken(options: DestinationContext): Promise<Delivered | undefined> {
    const tried = this.#tried;
    if (tried === undefined) return undefined;
    const destination = await this.#task.connector.open(options);
    try {
      const watermarks = await destination.watermarks(this.table);
      const isTaken = watermarks.some((each) => sameWatermark(tried.load.after, each));
      const rest = { action: 'increment', why: '', refused: 0, newlyRefused: 0 } as const;
      return isTaken ? { rows: tried.rows, ...rest } : undefined;
    } finally {
      await destination.close();
    }
  }

  async #deliver(destination: TableDestination): Promise<Delivered> {
    const { context, request, feed } = this.#task;
    const { name, mode } = request.destination;
    const own = { destination: name, stream: feed.stream, table: this.table };
    const watermark = ownWatermark(await destination.watermarks(this.table), own, request.adopt);
    if (this.#tried !== undefined && sameWatermark(this.#tried.load.after, watermark))
      return this.#delivered(
        { type: 'changes', since: 0 },
        { columns: [], isEmpty: false },
        await this.#settle(destination, this.#tried),
      );
    const found = await destination.describe(this.table);
    const waiting = await countRejects(context.layout, name, feed.stream);
    const isErasing = await this.#isErasing();
    const plan = planDelivery({
      mode,
      feed,
      definition: this.definition,
      watermark,
      table: found === undefined ? undefined : { name: this.table, isEmpty: found.isEmpty },
      full: request.full || isErasing,
      adopt: request.adopt,
      hasRejects: waiting.all > 0,
    });
    if (plan.type === 'nothing') return this.#delivered(plan, found, { rows: 0, rejected: waiting });
    const delivered = await this.#carryOut(destination, { plan, watermark, found, retries: waiting.all > 0 });
    const isWhole = plan.type === 'everything' && (this.#dropsAbsent || delivered.action === 'create');
    return isWhole ? { ...delivered, erased: this.#erasures } : delivered;
  }

  /** Whether a load of all rows leaves no other row in the table. */
  get #dropsAbsent(): boolean {
    const { mode, deletes } = this.#task.request.destination;
    return mode === 'replace' || (mode === 'mirror' && deletes === 'hard');
  }

  /** Whether all rows must be sent because some were erased: only that removes them here. */
  async #isErasing(): Promise<boolean> {
    const { context, feed, request } = this.#task;
    this.#erasures = (await readErasures(context.layout, feed.stream)).at(-1)?.number ?? 0;
    const { streams } = await readDeliveryState(context.layout, request.destination.name);
    return this.#dropsAbsent && this.#erasures > (streams[feed.stream]?.erased ?? 0);
  }

  async #carryOut(destination: TableDestination, situation: Situation): Promise<Delivered> {
    const { feed, session, folder, context, progress, request } = this.#task;
    progress.phase = 'preparing';
    const { schema, target } = await this.#prepare(destination, situation);
    const plan = planWithVariants(situation.plan, schema.newVariants, target.key);
    const input = await DeliveryInput.open({
      layout: context.layout,
      feed,
      session,
      folder: join(folder, 'input'),
      retried: situation.retries && plan.type === 'changes' ? rejectedKeys(this.#rejects) : undefined,
    });
    try {
      const pieces =
        plan.type === 'everything'
          ? await input.everything()
          : plan.type === 'changes'
            ? await input.changes(plan.since, request.destination.mode)
            : [];
      const load = this.#load({ plan, pieces, schema, target, situation });
      await load.run(destination);
      return this.#delivered(plan, situation.found, await this.#settle(destination, load));
    } finally {
      await input.close();
    }
  }

  /** Creates or changes the table so that it can take the stream's rows. */
  async #prepare(
    destination: TableDestination,
    { watermark, found }: Situation,
  ): Promise<{ schema: SchemaPlan; target: TargetTable }> {
    const { request, feed } = this.#task;
    const connector = { ...this.#task.connector, ...destination.types };
    const { columns: wanted, key } = deliveredColumns({ connector, config: request.destination, feed });
    const schema = await planSchema({
      connector,
      stream: feed.stream,
      table: this.table,
      found,
      wanted,
      isOurs: watermark?.table === this.table || request.adopt,
      onTypeChange: request.destination.onTypeChange,
      isEmptyColumn: (column) => destination.isColumnEmpty(this.table, column),
    });
    const columns = schema.columns.map(({ name, mapping }) => ({ name, type: mapping.type }));
    const target: TargetTable = { name: this.table, columns, key };
    for (const change of schema.changes) await destination.prepare(target, change);
    return { schema, target };
  }

  #load({
    plan,
    pieces,
    schema,
    target,
    situation,
  }: {
    readonly plan: DeliveryPlan;
    readonly pieces: readonly LoadChunk[];
    readonly schema: SchemaPlan;
    readonly target: TargetTable;
    readonly situation: Situation;
  }): TableLoad {
    const { progress } = this.#task;
    const load = new TableLoad({
      stream: this.#task,
      plan,
      pieces,
      columns: schema.columns,
      target,
      isEmpty: situation.found?.isEmpty !== false,
      definition: this.definition,
      before: situation.watermark,
      rejects: this.#rejects,
    });
    this.#tried = load;
    progress.phase = 'loading';
    progress.rows = 0;
    progress.total = load.load.data.rows;
    return load;
  }

  /** Finishes a committed load: writes the rejects and verifies the table. */
  async #settle(
    destination: TableDestination,
    { load, rows, rejects, isFirst, columns }: TableLoad,
  ): Promise<{ rows: number; rejected: Waiting }> {
    const { request, feed, session, progress } = this.#task;
    const kept = withTold(rejects, await readRejects(this.#rejects));
    await writeRejects(this.#rejects, kept);
    const { mode, verify, deletes } = request.destination;
    progress.phase = 'verifying';
    await verifyLoad({
      destination,
      stream: feed.stream,
      table: load.table.name,
      mode,
      verify: verify === 'none' ? 'none' : 'count',
      isSoft: mode === 'mirror' && deletes === 'soft',
      rows: feed.rows,
      rejected: rejects.length,
      isFirst,
      columns,
      session,
      everything: undefined,
    });
    await tellRejects(this.#rejects);
    return { rows, rejected: waitingIn(kept) };
  }

  #delivered(
    plan: DeliveryPlan,
    found: TableDescription | undefined,
    { rows, rejected }: { readonly rows: number; readonly rejected: Waiting },
  ): Delivered {
    const isAppend = this.#task.request.destination.mode === 'append';
    const sent = isAppend ? 'append' : plan.type === 'everything' ? 'reload' : 'increment';
    const action = plan.type === 'nothing' || plan.type === 'adopt' ? 'nothing' : found === undefined ? 'create' : sent;
    const why = plan.type === 'everything' ? plan.reason.replaceAll('_', ' ') : '';
    return { rows, action, why, refused: rejected.all, newlyRefused: rejected.untold };
  }
}
