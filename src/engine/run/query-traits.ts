import type { Session } from '../../storage/duckdb.js';
import { parsedQuery, tablesIn, withNames } from './stream-order.js';

/** Properties of a query's rows that its text shows. */
export interface QueryTraits {
  /** Whether its rows may depend on the order or the grouping of the rows that it reads: a sum of doubles, a list, a LIMIT. */
  readonly dependsOnOrder: boolean;
  /** What gives other rows in each run, though it reads the same: calls such as `random()`, and samples. */
  readonly varying: readonly string[];
  /** Whether it reads anything but streams, such as a file. */
  readonly readsOthers: boolean;
}

/** Aggregates and window functions whose result is the same in any order. Of all others that is not known, or not true. */
const orderFree = new Set(
  'count count_star count_if countif min max bool_and bool_or bit_and bit_or bit_xor approx_count_distinct rank dense_rank percent_rank cume_dist'.split(
    ' ',
  ),
);

/** Tables that a function makes of its arguments alone. */
const madeOfArguments = new Set(['unnest', 'range', 'generate_series', 'repeat', 'repeat_row']);

/** The time, written without parentheses. DuckDB's parser takes it for a column. */
const timeNames = new Set(['current_date', 'current_time', 'current_timestamp', 'localtime', 'localtimestamp']);

/** DuckDB counts them as volatile, or as constant in one query only, but they change no row between two runs. */
const steady = new Set(
  'error stats write_log sleep_ms setseed current_database current_schema current_schemas in_search_path'.split(' '),
);

interface FunctionNames {
  readonly aggregates: ReadonlySet<string>;
  readonly volatile: ReadonlySet<string>;
}

async function functionNames(session: Session): Promise<FunctionNames> {
  const rows = await session.rows(
    `SELECT DISTINCT function_name AS name, function_type = 'aggregate' AS aggregate FROM duckdb_functions()
     WHERE function_type = 'aggregate' OR stability <> 'CONSISTENT'`,
  );
  const named = (isAggregate: boolean) =>
    rows.filter(({ aggregate }) => aggregate === isAggregate).map(({ name }) => String(name));
  const volatile = named(false).filter((name) => !steady.has(name));
  return { aggregates: new Set(named(true)), volatile: new Set(volatile) };
}

type TreeNode = Readonly<Record<string, unknown>>;

/** Looks at each node of a parsed query. */
class TraitFinder {
  dependsOnOrder = false;
  readsOthers = false;
  readonly varying = new Set<string>();
  readonly #names: FunctionNames;

  constructor(names: FunctionNames) {
    this.#names = names;
  }

  visit(node: unknown): void {
    if (Array.isArray(node)) for (const part of node) this.visit(part);
    else if (typeof node === 'object' && node !== null) {
      this.#look(node as TreeNode);
      for (const part of Object.values(node)) this.visit(part);
    }
  }

  #look(node: TreeNode): void {
    const { class: kind, type, sample } = node;
    if (kind === 'FUNCTION') this.#call(node);
    if (kind === 'WINDOW') this.#order(node.function_name);
    if (kind === 'COLUMN_REF') this.#column(node.column_names);
    if (String(type).startsWith('LIMIT') || node.ref_type === 'POSITIONAL') this.dependsOnOrder = true;
    if (type === 'DISTINCT_MODIFIER' && (node.distinct_on_targets as unknown[]).length > 0) this.dependsOnOrder = true;
    if (type === 'BASE_TABLE' && node.schema_name) this.readsOthers = true;
    if (type === 'TABLE_FUNCTION') {
      const { function_name: name } = (node.function ?? {}) as TreeNode;
      if (!madeOfArguments.has(String(name).toLowerCase())) this.readsOthers = true;
    }
    if (typeof sample === 'object' && sample !== null) this.#sample(sample as TreeNode);
  }

  #call({ function_name: called, children }: TreeNode): void {
    const name = String(called).toLowerCase();
    if (this.#names.aggregates.has(name)) this.#order(name);
    // The age of one time is that until now.
    const isAgeNow = name === 'age' && (children as unknown[]).length === 1;
    if (this.#names.volatile.has(name) || isAgeNow) this.varying.add(`${name}()`);
  }

  #order(name: unknown): void {
    if (!orderFree.has(String(name).toLowerCase())) this.dependsOnOrder = true;
  }

  #column(names: unknown): void {
    const [name, ...rest] = names as string[];
    if (name !== undefined && rest.length === 0 && timeNames.has(name.toLowerCase()))
      this.varying.add(name.toLowerCase());
  }

  #sample({ seed }: TreeNode): void {
    if (seed === -1) this.varying.add('a sample without REPEATABLE');
    else this.dependsOnOrder = true;
  }
}

/**
 * Finds the properties of a query's rows that its text shows.
 * @param streams names that the query may read, in lower case
 * @throws {CdsyncError} `sql_failed` if it is not a single SELECT
 */
export async function queryTraits(
  session: Session,
  { name, query }: { readonly name: string; readonly query: string },
  streams: Iterable<string>,
): Promise<QueryTraits> {
  const statements = await parsedQuery(session, name, query);
  const finder = new TraitFinder(await functionNames(session));
  finder.visit(statements);
  const names = new Set([...streams, ...withNames(statements)]);
  const { dependsOnOrder, readsOthers, varying } = finder;
  const readsTables = [...tablesIn(statements)].some((table) => !names.has(table));
  return { dependsOnOrder, varying: [...varying].sort(), readsOthers: readsOthers || readsTables };
}

/** The warning about a query whose rows change though nothing that it reads does; undefined if it has none. */
export function varyingWarning(stream: string, { varying }: Pick<QueryTraits, 'varying'>): string | undefined {
  if (varying.length === 0) return undefined;
  return (
    `stream ${stream}: its query has ${varying.join(', ')}, so its rows may change in a run although no stream that it reads has changed. ` +
    'If that is not wanted, take the value from a column.'
  );
}
