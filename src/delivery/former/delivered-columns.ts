import { ColumnSet } from '../../columns/columns.js';
import type { TextFormat } from '../../columns/text-format.js';
import type { ColumnRule, DestinationConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import { quoteIdentifier } from '../../core/sql.js';
import { type ColumnType, parseColumnType, type StreamColumn } from '../../sdk/column-type.js';
import type { TableConnector } from '../../sdk/former/destination.js';
import type { ColumnMapping } from '../../sdk/former/load.js';
import type { Feed } from '../../snapshot/feed.js';
import { TargetNames } from '../target-names.js';

/** A column of a target table: one of the stream's, or one of cdsync's own. */
export interface DeliveredColumn extends StreamColumn {
  readonly mapping: ColumnMapping;
  /** SQL for its value in a row of an input. */
  readonly value: string;
  /** The same column with the texts that its values were made of, for a table that has it as text. */
  readonly asText?: DeliveredColumn | undefined;
}

const textType: ColumnType = { kind: 'text' };
const momentType: ColumnType = { kind: 'timestamp' };

/** The columns that the destination's rules keep, with their new names, in the stream's order. */
function keptColumns(
  feed: Feed,
  rules: ReadonlyMap<string, ColumnRule>,
): { name: string; as: string; duckdbType: string; form: TextFormat | undefined }[] {
  const others = rules.get('*');
  return ColumnSet.restore(feed.columns).list.flatMap(({ name, type, form }) => {
    const rule = rules.get(name) ?? others;
    const isKey = feed.key.includes(name);
    if (rule?.drop === true && !isKey) return [];
    if (rule?.drop === true && rules.has(name)) {
      throw new CdsyncError(`column "${name}" is part of the key of stream "${feed.stream}" and cannot be dropped`, {
        code: 'destination_columns',
        stream: feed.stream,
        hint: 'remove its `drop` from the destination',
      });
    }
    return [{ name, as: rules.get(name)?.rename ?? name, duckdbType: type, form }];
  });
}

function refuseClashes(names: readonly string[], stream: string): void {
  const seen = new Set<string>();
  for (const name of names) {
    const folded = name.toLowerCase();
    if (seen.has(folded)) {
      throw new CdsyncError(`two columns of stream "${stream}" would be called "${name}" in the destination`, {
        code: 'destination_columns',
        stream,
        hint: 'give one of them another name with `rename`',
      });
    }
    seen.add(folded);
  }
}

interface ColumnsTask {
  readonly connector: TableConnector;
  readonly config: Pick<DestinationConfig, 'mode' | 'columns' | 'deletes'>;
  readonly feed: Feed;
}

/** All columns that cdsync fills in a stream's table, and the names of the key columns in that table. */
export function deliveredColumns({ connector, config, feed }: ColumnsTask): {
  columns: DeliveredColumn[];
  key: string[];
} {
  const names = new TargetNames(connector.capabilities.identifiers);
  const own = (name: string, type: ColumnType, value: string): DeliveredColumn => {
    const column: StreamColumn = {
      name: names.give(name),
      type,
      duckdbType: type.kind === 'text' ? 'VARCHAR' : 'TIMESTAMP WITH TIME ZONE',
    };
    return { ...column, value, mapping: connector.mapColumn(type, column) };
  };
  const isAppend = config.mode === 'append';
  const first = isAppend ? [own('_op', textType, '_op'), own('_run_id', textType, '_run_id')] : [];
  const last = [own('_synced_at', momentType, '_synced_at')];
  if (config.mode === 'mirror' && config.deletes === 'soft')
    last.push(own('_deleted_at', momentType, "CASE WHEN _op = 'delete' THEN _synced_at END"));
  const kept = keptColumns(feed, config.columns);
  refuseClashes(
    [...first, ...last, ...kept.map(({ as }) => ({ name: as }))].map(({ name }) => name),
    feed.stream,
  );
  const key = new Map<string, string>();
  const data = kept.map(({ name, as, duckdbType, form }): DeliveredColumn => {
    const given = (type: ColumnType, duckdb: string, value: string): DeliveredColumn => {
      const column = { name: target, type, duckdbType: duckdb };
      return { ...column, value, mapping: connector.mapColumn(type, column) };
    };
    const target = names.give(as);
    if (feed.key.includes(name)) key.set(name, target);
    const value = quoteIdentifier(name);
    const column = given(parseColumnType(duckdbType), duckdbType, value);
    return form === undefined ? column : { ...column, asText: given(textType, 'VARCHAR', form.text(value)) };
  });
  const columns = isAppend ? [...first, ...last, ...data] : [...data, ...last];
  return { columns, key: isAppend ? [] : feed.key.map((name) => key.get(name) as string) };
}
