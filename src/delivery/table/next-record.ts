import { randomUUID } from 'node:crypto';
import { packageVersion } from '../../core/package-version.js';
import type { TableConnector } from '../../sdk/destination.js';
import type { LoadLine, LoadOutcome } from '../../sdk/load.js';
import type { StreamTask } from '../delivery.js';
import type { PieceData } from '../load-data.js';
import { keyPaths } from './columns.js';
import type { TablePlan } from './plan.js';
import { type Pending, recordText, type TableRecord } from './record.js';

/** How many stores the record remembers as those that wrote the table. */
const storesKept = 5;

export interface NextRecordTask {
  readonly task: StreamTask<TableConnector>;
  readonly plan: TablePlan;
  /** When the load began: ISO 8601, UTC. */
  readonly moment: string;
  /** Number of the last erasure of the stream; 0 if there was none. */
  readonly erased: number;
  /** How many rejects stay listed, besides those of the rows that are handed over. */
  readonly kept: number;
}

/** The records of one load: the intent before it, and what its commit says. */
interface NextRecord {
  /** The load's id: `<generation>:<digits>`. */
  readonly id: string;
  readonly intent: TableRecord;
  finish(outcome: LoadOutcome, data: PieceData): { readonly record: string; readonly line: LoadLine };
}

/** The store is moved to the end of the list when it takes over from another one. */
function storesAfter(before: TableRecord | undefined, id: string, since: string): TableRecord['stores'] {
  const stores = before?.stores ?? [];
  if (stores.at(-1)?.id === id) return stores;
  return [...stores.filter((store) => store.id !== id), { id, since }].slice(-storesKept);
}

function pendingOf({ plan, moment }: NextRecordTask, load: string): Pending {
  const { record, next, change } = plan;
  const kinds = new Map(next.add.map(({ name, kind }) => [name, kind]));
  const left = record?.pending;
  return {
    load,
    fresh: change.create || left?.fresh === true,
    added: [
      ...(left?.added ?? []),
      ...change.add.flatMap(({ name }): [string, string][] =>
        kinds.has(name) ? [[name, kinds.get(name) as string]] : [],
      ),
    ],
    widened: [...(left?.widened ?? []), ...next.widen.map(({ name, kind }): [string, string] => [name, kind])],
    since: left?.since ?? moment,
  };
}

/** A record of a table that has not been loaded. */
function unloaded({ task: { feed, context, request }, plan, moment }: NextRecordTask): TableRecord {
  const { mode, deletes } = request.destination;
  return {
    version: 1,
    tenant: feed.definition.tenant_id ?? '',
    job: context.layout.job,
    stores: storesAfter(undefined, feed.store_id, moment),
    store_id: feed.store_id,
    sequence: -1,
    run_id: '',
    // An intent that is never followed by rows leaves the next load its generation.
    generation: plan.generation - 1,
    load: '',
    stamp: null,
    mode,
    deletes,
    shape: mode === 'append' ? 'append' : 'keyed',
    key: keyPaths(feed),
    map: new Map(),
    retired: new Map(),
    columns: new Map(),
    rows: 0,
    erased: 0,
    refused: 0,
    full_of: null,
    verified_at: null,
    delivered_at: moment,
    action: 'nothing',
    why: '',
    owed: null,
    pending: null,
  };
}

/** The record after a load. */
function loaded(input: NextRecordTask, load: string, data: PieceData, outcome: LoadOutcome): TableRecord {
  const { task, plan, moment, erased, kept } = input;
  const { feed } = task;
  const { record, next, decision, table, isEverything } = plan;
  const base = record ?? unloaded(input);
  const ours = new Set([...table.columns.map(({ name }) => name), ...next.retired.keys(), ...base.columns.keys()]);
  const ownRecord = unloaded(input);
  return {
    ...base,
    ...{
      tenant: ownRecord.tenant,
      job: ownRecord.job,
      mode: ownRecord.mode,
      deletes: ownRecord.deletes,
      shape: ownRecord.shape,
      key: ownRecord.key,
    },
    stores: storesAfter(record, feed.store_id, moment),
    store_id: feed.store_id,
    sequence: feed.sequence,
    run_id: feed.run_id,
    generation: plan.generation,
    load,
    stamp: outcome.stamp,
    map: next.map,
    retired: next.retired,
    retired_forms: next.retiredForms,
    columns: new Map(outcome.columns.filter(({ name }) => ours.has(name)).map(({ name, type }) => [name, type])),
    rows: outcome.rows,
    erased: Math.max(base.erased, erased),
    refused: kept + data.rejects.length,
    full_of: isEverything && ownRecord.shape === 'append' ? feed.run_id : base.full_of,
    verified_at: isEverything && ownRecord.shape === 'keyed' ? moment : base.verified_at,
    delivered_at: moment,
    action: decision.action,
    why: decision.why,
    owed: base.owed ?? (outcome.owes === true ? { load, since: moment } : null),
    pending: null,
  };
}

/** The records that a load writes: an intent before anything that its commit does not undo, and the result in the commit. */
export function nextRecord(input: NextRecordTask): NextRecord {
  const { task, plan, moment } = input;
  const load = `${plan.generation}:${randomUUID().replaceAll('-', '').slice(0, 12)}`;
  const { feed, request } = task;
  return {
    id: load,
    // The intent has the store: a load that is cut short after --adopt continues without it.
    intent: {
      ...(plan.record ?? unloaded(input)),
      stores: storesAfter(plan.record, feed.store_id, moment),
      pending: pendingOf(input, load),
    },
    finish: (outcome, data) => {
      const record = loaded(input, load, data, outcome);
      const line: LoadLine = {
        load,
        destination: request.destination.name,
        stream: feed.stream,
        table_name: plan.table.name,
        action: plan.decision.action,
        why: plan.decision.why,
        generation: plan.generation,
        sequence: feed.sequence,
        run_id: feed.run_id,
        rows_sent: data.handedOver,
        rows_after: outcome.rows,
        values_refused: data.rejects.length,
        columns_added: plan.change.add.map(({ name }) => name).join(', '),
        columns_cleared: plan.clear.join(', '),
        began_at: moment,
        committed_at: new Date(task.context.clock.now()).toISOString(),
        cdsync_version: packageVersion(),
      };
      return { record: recordText(record), line };
    },
  };
}
