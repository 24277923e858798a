import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { TableConnector, TableDestination } from '../../sdk/former/destination.js';
import type { Load, TargetTable } from '../../sdk/former/load.js';
import type { Watermark } from '../../sdk/former/watermark.js';
import type { StreamTask } from '../delivery.js';
import type { LoadChunk } from '../input.js';
import type { DeliveredColumn } from './delivered-columns.js';
import { hashed } from './delivery-definition.js';
import type { DeliveryPlan } from './delivery-plan.js';
import { handoverTo } from './handover.js';
import { loadAction } from './load-action.js';
import { PieceData } from './load-data.js';
import { type Reject, readRejects, withTold, writeRejects } from './rejects.js';

interface TableLoadTask {
  readonly stream: StreamTask<TableConnector>;
  readonly plan: DeliveryPlan;
  readonly pieces: readonly LoadChunk[];
  readonly columns: readonly DeliveredColumn[];
  readonly target: TargetTable;
  /** Whether the table has no rows yet. */
  readonly isEmpty: boolean;
  readonly definition: string;
  readonly before: Watermark | undefined;
  /** The file for rows that the destination refuses. */
  readonly rejects: string;
}

/** One load of one table: its rows, and its description for the destination. */
export class TableLoad {
  readonly load: Load;
  readonly columns: readonly DeliveredColumn[];
  /** Whether the load brings all rows into an empty table. */
  readonly isFirst: boolean;
  readonly #data: PieceData;
  readonly #folder: string;

  constructor(task: TableLoadTask) {
    const { plan, isEmpty, columns, stream } = task;
    this.columns = columns;
    this.isFirst = isEmpty && plan.type === 'everything';
    this.#folder = join(stream.folder, 'files');
    this.#data = pieceData(task, this.#folder);
    this.load = loadOf(task, this.#data);
  }

  /** Number of rows handed over. */
  get rows(): number {
    return this.#data.handedOver;
  }

  /** The rows left out, each with its reason. */
  get rejects(): readonly Reject[] {
    return this.#data.rejects;
  }

  /** @throws the errors of the connector; it is then unknown whether the load was committed */
  async run(destination: TableDestination): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true });
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    try {
      await destination.load(this.load);
    } finally {
      await rm(this.#folder, { recursive: true, force: true });
    }
  }
}

function pieceData({ stream, plan, pieces, columns, target, isEmpty, rejects: path }: TableLoadTask, folder: string) {
  const { connector, request, feed, session, progress } = stream;
  const action = loadAction(plan, request.destination, isEmpty);
  return new PieceData({
    session,
    pieces,
    handover: handoverTo({ connector, config: request.destination, feed, columns, action, key: target.key }),
    capabilities: connector.capabilities,
    folder,
    onReject: request.destination.onReject,
    progress: (rows) => {
      progress.rows = rows;
    },
    // This runs before the commit, so that the refused rows are on the disk even if the process ends right after the commit.
    handedOver: async (rejects) => {
      if (rejects.length === 0) return;
      const before = await readRejects(path);
      await writeRejects(path, [...before, ...withTold(rejects, before)]);
    },
  });
}

function loadOf({ stream, plan, target, isEmpty, definition, before }: TableLoadTask, data: PieceData): Load {
  const { context, request, feed } = stream;
  const { name: destination } = request.destination;
  const { store_id: storeId, sequence, run_id: runId } = feed;
  const deliveredAt = new Date(context.clock.now()).toISOString();
  const since = plan.type === 'changes' ? plan.since : null;
  return {
    stream: feed.stream,
    id: hashed([storeId, feed.stream, since, sequence, definition]),
    runId,
    table: target,
    action: loadAction(plan, request.destination, isEmpty),
    data,
    deliveredAt,
    before,
    after: { destination, stream: feed.stream, table: target.name, storeId, sequence, definition, deliveredAt },
    signal: context.signal,
  };
}
