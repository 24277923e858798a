import {
  type DestinationContext,
  type FoundColumns,
  fenced,
  type Load,
  notATable,
  SqlDestination,
  type TableDestination,
} from '../../src/sdk/index.js';
import { bigqueryDialect, identifier, literal } from './dialect.js';
import { isSessionGone } from './errors.js';
import type { bigqueryOptions } from './options.js';
import type { BigquerySdk } from './sdk.js';
import { Session } from './session.js';
import { described } from './types.js';

/** Tables of one dataset. */
class BigqueryDestination extends SqlDestination<Session> {
  constructor(session: Session) {
    super(
      bigqueryDialect(() => session.stage),
      session,
    );
  }

  protected override async find(table: string): Promise<FoundColumns | undefined> {
    const view = (name: string) => this.session.information(name);
    const rows = await this.session.rows(
      `SELECT t.table_type AS type, o.option_value AS description, c.column_name AS name, c.data_type AS data_type, c.collation_name AS collation
       FROM ${view('TABLES')} AS t LEFT JOIN ${view('COLUMNS')} AS c ON c.table_name = t.table_name
       LEFT JOIN ${view('TABLE_OPTIONS')} AS o ON o.table_name = t.table_name AND o.option_name = 'description'
       WHERE t.table_name = ${literal(table)} ORDER BY c.ordinal_position`,
    );
    const [first] = rows;
    if (first === undefined) return undefined;
    if (first.type !== 'BASE TABLE') throw notATable(table, `a ${String(first.type).toLowerCase()}`);
    return {
      columns: rows.flatMap(({ name, data_type, collation }) =>
        name === null ? [] : [{ name: String(name), type: described(String(data_type), collation) }],
      ),
      comment: descriptionOf(first.description),
    };
  }

  protected override async leftovers(): Promise<string[]> {
    return (await this.session.leftovers()).map((name) => `DROP TABLE IF EXISTS ${identifier(name)}`);
  }

  override async load(load: Load): Promise<void> {
    try {
      await this.session.begun();
      await super.load(load);
    } catch (error) {
      throw isSessionGone(error) ? fenced(load.state) : error;
    }
  }
}

/** A table's description, which the catalog shows as a quoted text; undefined if it has escapes that cannot be read back. */
function descriptionOf(value: unknown): string | null | undefined {
  if (value === null || value === undefined) return null;
  try {
    return String(JSON.parse(String(value)));
  } catch {
    return undefined;
  }
}

/** Opens the destination. It sends no request before the first job. */
export async function openBigquery(
  sdk: BigquerySdk,
  { options, job, destination }: DestinationContext<typeof bigqueryOptions>,
): Promise<TableDestination> {
  return new BigqueryDestination(new Session(sdk, options, `${job} ${destination}`));
}
