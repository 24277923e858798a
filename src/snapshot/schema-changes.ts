import { type Column, ColumnSet, columnPath, type StoredColumn } from '../columns/columns.js';
import type { SchemaChange } from '../core/schema-change.js';

function isFilled({ shape, declared }: Column): boolean {
  return shape.kinds !== 0 || declared !== undefined;
}

/** Another type of a column, unless a rule or another choice of `strings` made it. */
function changeOf(was: Column, now: Column): Pick<SchemaChange, 'change' | 'from'> | undefined {
  const isOtherRule = JSON.stringify(was.treatment) !== JSON.stringify(now.treatment);
  const isNowTyped = was.form === undefined && now.form !== undefined && was.type === 'VARCHAR';
  if (was.type === now.type || !isFilled(was) || isOtherRule || isNowTyped) return undefined;
  const fellBack = now.type === 'VARCHAR' && (was.form !== undefined || now.former !== undefined);
  return { change: fellBack ? 'type_fell_back' : 'type_widened', from: was.type };
}

/** How the columns of a snapshot differ from those of the one before. Of a first snapshot: the rules for types that do not hold. */
export function schemaChanges(
  before: readonly StoredColumn[] | undefined,
  columns: readonly StoredColumn[],
): SchemaChange[] {
  const known = ColumnSet.restore(before ?? []);
  return ColumnSet.restore(columns).list.flatMap((column): SchemaChange[] => {
    const { place, field, type: to, former } = column;
    const was = known.get(place, field);
    const path = columnPath(column);
    if (was === undefined) {
      if (before !== undefined) return [{ column: path, change: 'column_added', from: null, to }];
      return former === undefined ? [] : [{ column: path, change: 'type_fell_back', from: former, to }];
    }
    const change = changeOf(was, column);
    return change === undefined ? [] : [{ column: path, ...change, to }];
  });
}
