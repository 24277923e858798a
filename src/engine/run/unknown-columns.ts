import { actionOf, type ColumnRules, hidesValues } from '../../columns/column-rules.js';
import { type ColumnField, columnPath, type StoredColumn } from '../../columns/columns.js';
import type { StreamConfig } from '../../config/config.js';
import { CdsyncError } from '../../core/errors.js';
import { formatNames } from '../../core/quantities.js';
import type { ReportedWarning } from '../../core/run-report.js';
import { nearest } from '../../core/suggestions.js';

/** A name in the configuration that no column has. */
export interface UnknownColumn extends ReportedWarning {
  /** The name as the configuration has it. */
  readonly name: string;
  /** Whether it is a rule of `columns:`, not an option that only looks at values. */
  readonly isRule: boolean;
  /** Whether it should hide values from readers. */
  readonly hides: boolean;
}

/** The columns of a stream. */
interface SeenColumns {
  /** As they are kept. */
  readonly columns: readonly Pick<StoredColumn, 'place' | 'field' | 'name'>[];
  /** Those that rules or the contract leave out. */
  readonly leftOut: readonly ColumnField[];
  /** Where they were looked for: `in 1,000 records`. Left out: in all. */
  readonly scope?: string;
}

type NamedColumns = Pick<StreamConfig, 'select' | 'columns' | 'guards' | 'reads'>;

/** A suggestion: the column of an object's member, or the nearest name. */
function advice(name: string, names: readonly string[]): string {
  const owner = names.find((each) => name.startsWith(`${each}.`));
  if (owner !== undefined) return `; a rule concerns a whole column, here ${owner}`;
  const [near] = nearest(name, names, 1);
  return near === undefined ? '' : `; did you mean "${near}"?`;
}

function inRules(config: NamedColumns, rules: ColumnRules, { columns, leftOut, scope = '' }: SeenColumns) {
  const all = [...columns, ...leftOut];
  const fields = [...new Set(all.flatMap((column) => [column.field, columnPath(column)]))];
  return rules.unmatched(all).map((name): UnknownColumn => {
    const rule = config.columns[name];
    const place =
      rule === undefined ? `select: no column "${name}"` : `columns: no column "${name}" to ${actionOf(rule)}`;
    const message = `${place}${scope}${advice(name, fields)}`;
    return { name, isRule: true, hides: hidesValues(rule), code: 'column_unknown', message };
  });
}

function inGuards({ guards }: NamedColumns, { columns, scope = '' }: SeenColumns): UnknownColumn[] {
  const names = columns.map(({ name }) => name);
  const named: [string, string][] = [
    ...guards.unique.map((name): [string, string] => ['unique', name]),
    ...Object.keys(guards.maxNull).map((name): [string, string] => ['max_null', name]),
  ];
  return named.flatMap(([guard, name]) => {
    if (names.includes(name)) return [];
    const message = `guards.${guard}: no column "${name}"${scope}, so nothing is checked${advice(name, names)}`;
    return [{ name, isRule: false, hides: false, code: 'guard_column_unknown', message }];
  });
}

function inPartition({ reads }: NamedColumns, { columns, leftOut, scope = '' }: SeenColumns): UnknownColumn[] {
  if (reads.partitionBy === undefined || reads.partitionBy === 'auto') return [];
  const name = reads.partitionBy.attribute;
  const fields = [...columns, ...leftOut].flatMap(({ place, field }) => (place === 'attribute' ? [field] : []));
  if (fields.includes(name)) return [];
  const message = `partition_by: no record has an attribute "${name}"${scope}${advice(name, fields)}`;
  return [{ name, isRule: false, hides: false, code: 'column_unknown', message }];
}

/** The names of a stream's rules, guards and partition that none of its columns has. */
export function unknownColumns(config: NamedColumns, rules: ColumnRules, seen: SeenColumns): UnknownColumn[] {
  return [...inRules(config, rules, seen), ...inGuards(config, seen), ...inPartition(config, seen)];
}

function fieldOf(path: string): ColumnField {
  const [, attribute] = /^attributes\.(.*)$/s.exec(path) ?? [];
  return attribute === undefined ? { place: 'envelope', field: path } : { place: 'attribute', field: attribute };
}

/** The attributes that a stream does not select, and a warning if some of them are new. */
export function unselectedColumns(
  rules: ColumnRules,
  { leftOut }: Pick<SeenColumns, 'leftOut'>,
  { before, reported }: { readonly before: readonly StoredColumn[] | undefined; readonly reported: readonly string[] },
): { readonly unselected: readonly string[]; readonly warnings: readonly ReportedWarning[] } {
  const present = leftOut.filter((column) => rules.isUnselected(column)).map(columnPath);
  const earlier = new Set([...reported, ...(before ?? []).map(columnPath)]);
  const names = [...new Set(present)]
    .filter((path) => !earlier.has(path))
    .map((path) => fieldOf(path).field)
    .sort();
  const unselected = [...new Set([...reported, ...present])].filter((path) => rules.isUnselected(fieldOf(path))).sort();
  if (names.length === 0) return { unselected, warnings: [] };
  const [attributes, are] = names.length === 1 ? ['attribute', 'is'] : ['attributes', 'are'];
  const kind = before === undefined ? attributes : `new ${attributes}`;
  const message = `${kind} ${formatNames(names, 10)} ${are} not selected, so nothing of ${names.length === 1 ? 'it' : 'them'} is kept`;
  return { unselected, warnings: [{ code: 'column_unselected', message }] };
}

/** Whether a stream names columns that could be unknown. */
export function namesColumns({ select, columns, guards, reads }: NamedColumns): boolean {
  const isSplit = reads.partitionBy !== undefined && reads.partitionBy !== 'auto';
  const names = [select ?? [], guards.unique, Object.keys(columns), Object.keys(guards.maxNull)];
  return isSplit || names.some(({ length }) => length > 0);
}

/** New names that another column already has. A column that is renamed itself, or dropped, gives its name away. */
export function takenNames(
  rules: ColumnRules,
  { columns }: Pick<SeenColumns, 'columns'>,
): { readonly column: string; readonly name: string; readonly taken: string }[] {
  return columns.flatMap((column) => {
    const name = rules.name(column.place, column.field);
    const other = columns.find(
      (each) =>
        each !== column &&
        each.field.toLowerCase() === name?.toLowerCase() &&
        rules.name(each.place, each.field) === undefined,
    );
    if (name === undefined || other === undefined) return [];
    return [{ column: columnPath(column), name, taken: columnPath(other) }];
  });
}

/**
 * Refuses a new name that another column has: readers would take one for the other. If the last snapshot has the column under its
 * new name already, the other one is newer and gets another name.
 * @throws {CdsyncError} `column_name_taken`
 */
export function assertNamesFree(
  rules: ColumnRules,
  seen: Pick<SeenColumns, 'columns'>,
  before: readonly StoredColumn[] | undefined,
): ReportedWarning[] {
  const taken = takenNames(rules, seen);
  const isOld = ({ column, name }: { column: string; name: string }) =>
    before?.some((candidate) => columnPath(candidate) === column && candidate.name === name) === true;
  const fresh = taken.filter((entry) => !isOld(entry));
  if (fresh.length > 0) {
    const pairs = fresh.map(
      ({ column, name, taken: other }) => `${column} cannot be renamed to ${name}: ${other} has it`,
    );
    throw new CdsyncError(pairs.join('; '), {
      code: 'column_name_taken',
      hint: 'choose another name under `columns:`, or rename or drop the other column too',
    });
  }
  return taken.map(({ column, name, taken: other }) => ({
    code: 'column_name_taken',
    message: `columns: ${column} is renamed to ${name}, and there is now also ${other}, which gets another name`,
  }));
}
