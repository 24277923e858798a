import { CdsyncError } from '../../core/errors.js';
import { type ColumnType, parseColumnType } from '../../sdk/column-type.js';
import type { TableConnector } from '../../sdk/former/destination.js';
import type { SchemaChange, TableColumn, TableDescription } from '../../sdk/former/load.js';
import type { DeliveredColumn } from './delivered-columns.js';

/** The changes that a table needs, and the columns to load after them. */
export interface SchemaPlan {
  readonly changes: readonly SchemaChange[];
  readonly columns: readonly DeliveredColumn[];
  /** Names of the new variant columns; no row has a value in them yet. */
  readonly newVariants: readonly string[];
}

interface SchemaTask {
  readonly connector: TableConnector;
  readonly stream: string;
  readonly table: string;
  readonly found: TableDescription | undefined;
  readonly wanted: readonly DeliveredColumn[];
  /** Whether cdsync created the table, or the user told it to adopt the table. */
  readonly isOurs: boolean;
  readonly onTypeChange: 'variant_column' | 'fail';
  /** Asks the destination whether a column has no value in any row. */
  readonly isEmptyColumn: (column: string) => Promise<boolean>;
}

const scalarTypes = ['BOOLEAN', 'BIGINT', 'HUGEINT', 'DOUBLE', 'VARCHAR', 'DATE', 'TIMESTAMP WITH TIME ZONE'];

/** Finds a column by its name; ignores case if the destination does. */
function finder(found: TableDescription, connector: TableConnector): (name: string) => TableColumn | undefined {
  const folds = connector.capabilities.identifiers?.ignoresCase !== false;
  const exact = new Map(found.columns.map((column) => [column.name, column]));
  const folded = new Map(found.columns.map((column) => [column.name.toLowerCase(), column]));
  return (name) => exact.get(name) ?? (folds ? folded.get(name.toLowerCase()) : undefined);
}

function tableDiffers({ table, stream }: SchemaTask, differences: readonly string[]): CdsyncError {
  return new CdsyncError(`table "${table}" already exists, with another shape: ${differences.join('; ')}`, {
    code: 'table_differs',
    stream,
    hint: 'give the stream another table with `table:`, or let cdsync adapt this one: cdsync push --adopt',
  });
}

function typeChanged({ table, stream }: SchemaTask, column: DeliveredColumn, found: TableColumn): CdsyncError {
  return new CdsyncError(
    `column "${column.name}" of table "${table}" is ${found.type}, and its values are ${column.mapping.type} now`,
    {
      code: 'type_changed',
      stream,
      hint: 'change the column there, or let cdsync add another: on_type_change: variant_column',
    },
  );
}

/** SQL that converts a value to the earlier type of its column; NULL if that type cannot store it. */
function fitting(value: string, from: ColumnType, connector: TableConnector, type: string): string {
  const earlier = scalarTypes.find((name) => {
    const kind = parseColumnType(name);
    return connector.mapColumn(kind, { name: 'column', type: kind, duckdbType: name }).type === type;
  });
  if (earlier === undefined) return 'NULL';
  const scalar = `CASE WHEN json_type(${value}) NOT IN ('OBJECT', 'ARRAY') THEN ${value} ->> '$' END`;
  const text = from.kind === 'json' ? scalar : `${value}::VARCHAR`;
  const back = `TRY_CAST(${text} AS ${earlier})`;
  return /INT$/.test(earlier) ? `CASE WHEN ${back}::VARCHAR = ${text} THEN ${back} END` : back;
}

/** The variant of a column, which takes values of the new type: `score__text` beside `score`. */
function variantOf(column: DeliveredColumn): DeliveredColumn {
  const suffix = `__${column.mapping.type
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .replace(/_+$/, '')}`;
  let name = column.name;
  while (Buffer.byteLength(name + suffix) > 63) name = name.slice(0, -1);
  return { ...column, name: name + suffix };
}

class Planner {
  readonly changes: SchemaChange[] = [];
  readonly added: TableColumn[] = [];
  readonly columns: DeliveredColumn[] = [];
  readonly newVariants: string[] = [];
  readonly #task: SchemaTask;
  readonly #find: (name: string) => TableColumn | undefined;

  constructor(task: SchemaTask, found: TableDescription) {
    this.#task = task;
    this.#find = finder(found, task.connector);
  }

  async take(column: DeliveredColumn): Promise<void> {
    const { connector, onTypeChange } = this.#task;
    const found = this.#find(column.name);
    const wanted = column.mapping.type;
    if (found === undefined) return this.#add(column);
    if (found.type === wanted) return this.#keep(column);
    if (column.asText !== undefined && found.type === column.asText.mapping.type) return this.#keep(column.asText);
    // The present type is wider, so the column can store the values as it is.
    if (connector.widens?.(wanted, found.type)) return this.#keep(retyped(column, found.type));
    const isEmpty = await this.#task.isEmptyColumn(found.name);
    if (isEmpty || connector.widens?.(found.type, wanted)) {
      const changed = { name: found.name, type: wanted };
      this.changes.push({ type: 'change_type', column: changed, from: found.type, isEmpty });
      return this.#keep(column);
    }
    if (onTypeChange === 'fail') throw typeChanged(this.#task, column, found);
    const value = fitting(column.value, column.type, connector, found.type);
    this.columns.push({ ...column, value, mapping: { type: found.type } });
    await this.#variant(variantOf(column));
  }

  #keep(column: DeliveredColumn): void {
    this.columns.push(column);
  }

  #add(column: DeliveredColumn): void {
    this.added.push({ name: column.name, type: column.mapping.type });
    this.columns.push(column);
  }

  async #variant(column: DeliveredColumn): Promise<void> {
    if (this.#find(column.name)?.type === column.mapping.type) return this.#keep(column);
    this.newVariants.push(column.name);
    this.#add(column);
  }
}

/** The column with the type that it has in the destination. */
function retyped(column: DeliveredColumn, type: string): DeliveredColumn {
  return { ...column, mapping: { ...column.mapping, type } };
}

/** Describes how a table that cdsync did not create differs from the wanted one. */
function differences({ found, wanted, connector }: SchemaTask): string[] {
  if (found === undefined) return [];
  const find = finder(found, connector);
  return wanted.flatMap(({ name, mapping, asText }) => {
    const there = find(name);
    if (there === undefined) return [`it has no column "${name}" (${mapping.type})`];
    if (there.type === asText?.mapping.type) return [];
    const fits = there.type === mapping.type || connector.widens?.(mapping.type, there.type);
    return fits ? [] : [`its column "${name}" is ${there.type}, not ${mapping.type}`];
  });
}

/**
 * Plans the changes that a table needs before a stream's rows can be loaded into it.
 * @throws {CdsyncError} `table_differs`, `type_changed`
 */
export async function planSchema(task: SchemaTask): Promise<SchemaPlan> {
  const { found, wanted, isOurs } = task;
  if (found === undefined) return { changes: [{ type: 'create' }], columns: wanted, newVariants: [] };
  const different = isOurs ? [] : differences(task);
  if (different.length > 0) throw tableDiffers(task, different);
  const planner = new Planner(task, found);
  for (const column of wanted) await planner.take(column);
  const added: SchemaChange[] = planner.added.length === 0 ? [] : [{ type: 'add_columns', columns: planner.added }];
  return { changes: [...added, ...planner.changes], columns: planner.columns, newVariants: planner.newVariants };
}
