import { createHash } from 'node:crypto';
import { Kind, type Shape } from '../../columns/column-shape.js';
import { type Column, ColumnSet, columnPath } from '../../columns/columns.js';
import type { ColumnRule } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import { quoteIdentifier } from '../../core/sql.js';
import { parseColumnType } from '../../sdk/column-type.js';
import type { Feed } from '../../snapshot/feed.js';
import type { WantedColumn } from './column-map.js';
import type { StreamValue } from './exact-value.js';

/** A column of the stream: what the destination wants of it, and its values. */
export interface SourceColumn extends WantedColumn {
  /** Whether a rule of the stream hashes or masks its values. */
  readonly isHidden: boolean;
  readonly source: StreamValue;
}

/** Whether no integer of the shape is further from zero than 2^53. */
function isSafe({ kinds, element, fields }: Shape): boolean {
  if ((kinds & (Kind.longInteger | Kind.hugeInteger)) !== 0) return false;
  return (element === undefined || isSafe(element)) && [...(fields?.values() ?? [])].every(isSafe);
}

/** Whether all integers of a column are safe; one of a declared or inferred type says nothing about its values. */
function isSafeColumn({ shape, declared, form }: Column): boolean {
  return declared === undefined && form === undefined && isSafe(shape);
}

function fingerprint(parts: unknown): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 16);
}

/** The rule of a destination for a column; `*` stands for all that it does not name. */
function ruleOf(rules: ReadonlyMap<string, ColumnRule>, name: string, isKey: boolean): ColumnRule {
  const own = rules.get(name);
  if (own !== undefined) return own;
  return { drop: !isKey && rules.get('*')?.drop === true };
}

/**
 * The columns of a stream, in its order, as the rules of the stream and of the destination leave them.
 * @throws {CdsyncError} `destination_columns`
 */
export function wantedColumns(feed: Feed, rules: ReadonlyMap<string, ColumnRule>): SourceColumn[] {
  const columns = ColumnSet.restore(feed.columns).list.map((column): SourceColumn => {
    const { name, type, form, treatment, untracked } = column;
    const isKey = feed.key.includes(name);
    const rule = ruleOf(rules, name, isKey);
    if (rule.drop && isKey) throw keyDropped(feed.stream, name);
    const parsed = parseColumnType(type);
    return {
      path: columnPath(column),
      name,
      as: rule.rename ?? name,
      type,
      isSafe: isSafeColumn(column),
      rule: fingerprint([treatment ?? null, rule.drop]),
      isDropped: rule.drop,
      isHidden: treatment?.hash !== undefined || treatment?.mask !== undefined,
      isTracked: !untracked,
      isKey,
      source: { value: quoteIdentifier(name), type: parsed, duckdbType: type, form },
    };
  });
  refuseClashes(columns, feed.stream);
  return columns;
}

/** Paths of the key's columns, in the key's order. */
export function keyPaths(feed: Feed): string[] {
  const columns = ColumnSet.restore(feed.columns).list;
  return feed.key.map((name) => {
    const column = columns.find((each) => each.name === name);
    return column === undefined ? name : columnPath(column);
  });
}

function keyDropped(stream: string, name: string): CdsyncError {
  return new CdsyncError(`column "${name}" is part of the key of stream "${stream}" and cannot be dropped`, {
    code: 'destination_columns',
    stream,
    hint: 'remove its `drop` from the destination',
  });
}

const own = ['_op', '_run_id', '_synced_at', '_deleted_at', '_cdsync_load'];

function refuseClashes(columns: readonly WantedColumn[], stream: string): void {
  const seen = new Set(own);
  for (const { as, name } of columns.filter(({ isDropped }) => !isDropped)) {
    const folded = as.toLowerCase();
    // Only a rename can lead to a name that is taken: the stream's own names differ.
    if (seen.has(folded) && as !== name) {
      throw new CdsyncError(`two columns of stream "${stream}" would be called "${as}" in the destination`, {
        code: 'destination_columns',
        stream,
        hint: 'give one of them another name with `rename`',
      });
    }
    seen.add(folded);
  }
}
