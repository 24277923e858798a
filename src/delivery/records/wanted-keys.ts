import { CdsyncError } from '../../core/errors.js';
import type { Connector } from '../../sdk/destination.js';
import type { Erasure } from '../../storage/erasures.js';
import type { StreamTask } from '../delivery.js';
import type { Reject } from '../delivery-state.js';
import { erasureRun } from './outbox.js';
import type { WantedKey } from './rows-to-send.js';

/**
 * The keys of erasures after one.
 * @throws {CdsyncError} `erasures_gone` if the receiver may have rows of one whose keys are no longer kept
 */
export function erasedSince(
  erasures: readonly Erasure[],
  last: number,
  { feed, request: { adopt } }: Pick<StreamTask<Connector>, 'feed' | 'request'>,
): WantedKey[] {
  const due = erasures.filter(({ number }) => number > last);
  if (!adopt && due.some(({ keys }) => keys === null))
    throw new CdsyncError(
      `the receiver of stream "${feed.stream}" may have rows of an erasure whose keys are no longer kept`,
      {
        code: 'erasures_gone',
        stream: feed.stream,
        hint: 'erase these people there yourself; then cdsync push --adopt continues',
      },
    );
  return due.flatMap(({ number, keys }) =>
    (keys ?? []).map((key): WantedKey => ({ key, op: 'delete', runId: `${erasureRun}${number}`, mayExistThere: true })),
  );
}

/** A record that was refused, to be sent as it is now. */
export function asWanted({ key, op = 'update', run_id: runId, is_waiting: isWaiting = false }: Reject): WantedKey[] {
  // A receiver that fails may have stored the row.
  return key === null ? [] : [{ key, op, runId, mayExistThere: op !== 'insert' || isWaiting }];
}
