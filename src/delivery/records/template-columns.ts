import type { DestinationConfig } from '../../config/destination-config.js';
import { CdsyncError } from '../../core/errors.js';
import type { JsonMember } from '../../sdk/json-text.js';
import type { Feed } from '../../snapshot/feed.js';
import { type SourceColumn, wantedColumns } from '../table/columns.js';
import type { StreamValue } from '../table/exact-value.js';

/**
 * Checks that the templates of a destination name only columns that the records of a stream have.
 * @throws {CdsyncError} `template_invalid` with the place of each fault in the configuration
 */
export function assertTemplateColumns({ connector, options, columns, place }: DestinationConfig, feed: Feed): void {
  if (connector.checkColumns === undefined) return;
  const names = wantedColumns(feed, columns).flatMap(({ as, isDropped }) => (isDropped ? [] : [as]));
  const faults = connector.checkColumns(options as never, { name: feed.stream, columns: names });
  if (faults.length === 0) return;
  const lines = faults.map(({ path, placeholder, message }) => `${place(path, placeholder)}: ${message}`);
  throw new CdsyncError([...new Set(lines)].join('\n'), {
    code: 'template_invalid',
    stream: feed.stream,
    hint: 'a column that `columns` drops for this destination cannot be used; a renamed one has its new name',
  });
}

/** The members of a record. @param used the columns that the destination uses; undefined: all */
export function membersOf(columns: readonly SourceColumn[], used: readonly string[] | undefined): JsonMember[] {
  const members = columns.filter(({ as }) => used?.includes(as) ?? true);
  return members.map(({ as, source }) => memberOf(as, source));
}

/** A column in a record: timestamps are texts in ISO 8601. */
function memberOf(name: string, { value, type }: StreamValue): JsonMember {
  if (type.kind !== 'timestamp') return { name, value, type };
  return { name, value: `strftime(${value}, '%Y-%m-%dT%H:%M:%S.%fZ')`, type: { kind: 'text' } };
}
