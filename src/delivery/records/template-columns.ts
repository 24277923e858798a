import type { DestinationConfig } from '../../config/destination-config.js';
import { CdsyncError } from '../../core/errors.js';
import type { Feed } from '../../snapshot/feed.js';
import { wantedColumns } from '../table/columns.js';

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
