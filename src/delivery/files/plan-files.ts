import { CdsyncError } from '../../core/errors.js';
import type { FilePolicy } from '../../sdk/file-destination.js';
import type { Feed } from '../../snapshot/feed.js';
import { hasOtherRules, type MadeBy, planRecords, type SnapshotId } from '../records/position.js';
import { lineageGap } from '../table/decide.js';
import type { ExportState } from './file-state.js';

interface Asked {
  readonly feed: Feed;
  readonly policy: Pick<FilePolicy, 'content' | 'hasOp'>;
  readonly now: MadeBy;
  readonly full: boolean;
  readonly adopt: boolean;
  /** A file is due although nothing has changed. */
  readonly isAlways: boolean;
  /** The old name to write again. */
  readonly file: string | undefined;
}

/**
 * The files of a delivery:
 * - `nothing`: the files at the place are up to date.
 * - `write`: the rows of the snapshot or, with a base, the changes after it.
 * - `adopt`: nothing; only the position moves.
 */
export interface FileWork {
  readonly type: 'nothing' | 'write' | 'adopt';
  readonly why: string;
  readonly base?: SnapshotId | null;
  readonly name?: string;
}

const rulesChanged =
  'rules have changed; files handed over before stay as they were (cdsync push --full writes all again)';

function hasChanged(feed: Feed, last: SnapshotId & MadeBy, current: MadeBy): boolean {
  if (last.erased !== current.erased || last.run_id !== feed.run_id)
    return (
      last.erased !== current.erased || feed.changes.some(({ sequence, rows }) => sequence > last.sequence && rows > 0)
    );
  return false;
}

/** @throws {CdsyncError} `store_unknown`, `changes_gone`, `key_changed` for changes that do not lead here */
export function planFiles({ last, files }: ExportState, asked: Asked): FileWork {
  const { feed, policy, now, full, adopt, isAlways, file } = asked;
  const whole = (why: string): FileWork => ({ type: 'write', why, base: null });
  if (file !== undefined) {
    const old = files.find(({ name }) => name === file);
    const isOneOf = files.some(({ name, number }) => name !== file && number === old?.number);
    if (old !== undefined && (isOneOf || policy.hasOp))
      throw new CdsyncError(`"${file}" is one of several files of a delivery, and has a part of its rows only`, {
        code: 'file_unknown',
        stream: feed.stream,
        hint: 'cdsync push --full writes all rows under new names',
      });
    return old !== undefined ? { ...whole('asked (--full --file)'), name: file } : { type: 'nothing', why: '' };
  }
  if (full) return whole('asked (--full)');
  if (last === null) return adopt ? { type: 'adopt', why: 'asked (--adopt)' } : whole('nothing was handed over yet');
  const rulesNote = hasOtherRules(last, now) ? rulesChanged : '';
  if (policy.content === 'all') {
    const gap = lineageGap(feed, last);
    if (gap !== undefined) return adopt ? { type: 'adopt', why: 'asked (--adopt)' } : whole(gap);
    return hasChanged(feed, last, now) || isAlways ? whole(rulesNote) : { type: 'nothing', why: rulesNote };
  }
  const { type, why } = planRecords({ version: 1, ...last }, { feed, now, full, adopt });
  if (type === 'adopt') return { type, why };
  if (type === 'nothing' && !isAlways) return { type, why: rulesNote };
  return { type: 'write', why: why === '' ? '' : rulesNote || why, base: last };
}

/** The error for a file without rows that `empty: fail` does not allow. */
export function noRows({ stream }: Feed, isWhole: boolean): CdsyncError {
  return new CdsyncError(
    `stream "${stream}" has no ${isWhole ? 'rows' : 'changes'}, and \`empty: fail\` allows no such file`,
    {
      code: 'no_rows',
      stream,
      hint: 'find out why it is empty; `empty: send` writes a file without rows, `empty: skip` none',
    },
  );
}
