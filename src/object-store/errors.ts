import type { ErrorCode } from '../core/error-codes.js';
import { asCdsyncError, CdsyncError, reworded } from '../core/errors.js';

const bucketCodes: Readonly<Record<string, ErrorCode>> = {
  destination_login: 'bucket_login',
  destination_permission: 'bucket_permission',
  destination_unavailable: 'bucket_unavailable',
  destination_refused: 'bucket_refused',
};

/** A failure of the object store as one of the storage. Its code begins with `bucket_`. */
export function bucketError(error: unknown): unknown {
  const code = error instanceof CdsyncError ? bucketCodes[error.code] : undefined;
  if (code === undefined) return error;
  const { message, hint, cause, causeQuotesValues } = error as CdsyncError;
  return new CdsyncError(message, { code, hint, cause, causeQuotesValues });
}

/** A file of this machine cannot be read. The bucket may well have it whole. */
export function cacheInvalid(error: CdsyncError): CdsyncError {
  const { message, code, cause, causeQuotesValues, stream } = error;
  const again =
    'run again: cdsync then compares the cache with the bucket and downloads the files that differ; if that does not help, restore an earlier version of the bucket';
  const hint = code === 'published_busy' ? `close it where it is open; or else ${again}` : again;
  return reworded(error, message, { hint, cause, causeQuotesValues, stream });
}

/** Another machine has taken the job over: later work of this machine is not uploaded. */
export function superseded(place: string): CdsyncError {
  return new CdsyncError(`another machine has taken over ${place}; the work of this machine was not uploaded`, {
    code: 'superseded',
    hint: 'nothing is lost: the bucket has the state of the other machine, and the next run here begins with it',
  });
}

export function busy(place: string, who: string): CdsyncError {
  return new CdsyncError(`${place} is being worked on by ${who}`, {
    code: 'locked',
    hint: 'wait until it ends; if its machine is gone, a run takes it over once it has been silent for `takeover_after`',
  });
}

export const objectChangedCode = 'bucket_object_changed';

export function objectChanged(object: string, actual: string): CdsyncError {
  return new CdsyncError(`${object} ${actual}: the bucket was changed by another program`, {
    code: objectChangedCode,
    hint: 'restore that object from a version of the bucket; or remove it and run on the machine that ran last: its cache may have it',
  });
}

export function stateUnreadable(object: string, cause: unknown): CdsyncError {
  return new CdsyncError(`${object} is not a state of cdsync`, {
    code: 'state_unreadable',
    hint: 'restore an earlier version of that object; nothing was changed',
    cause,
  });
}

export function stateNewer(object: string): CdsyncError {
  return new CdsyncError(`${object} was written by a newer cdsync`, {
    code: 'storage_newer',
    hint: 'update cdsync on this machine',
  });
}

export function withoutConditions(place: string): CdsyncError {
  return new CdsyncError(`${place} has no conditional writes (If-Match, If-None-Match)`, {
    code: 'bucket_unconditional',
    hint: 'use a store that has them; or, if never more than one machine runs these jobs, set `single_machine: true`',
  });
}

/** The rows are right, but objects of earlier states could not be removed. @param since ISO 8601 */
export function bucketOwes(place: string, since: string, error: unknown): CdsyncError {
  const { message, code } = asCdsyncError(error);
  return new CdsyncError(
    `objects of ${place} that may have values which were erased or hidden since ${since} could not be removed: ${message} (${code})`,
    {
      code: 'removal_owed',
      hint: 'allow cdsync to delete there; each command that changes the job tries again: cdsync run',
      cause: error,
    },
  );
}

export function clockOff(place: string, aheadMs: number): CdsyncError {
  const minutes = Math.round(Math.abs(aheadMs) / 60_000);
  return new CdsyncError(
    `the clock of this machine is ${minutes} minutes ${aheadMs > 0 ? 'behind' : 'ahead of'} that of ${place}`,
    { code: 'clock_off', hint: 'set the clock: runs are named and ordered by it. Nothing was changed' },
  );
}

export function foreignCache(folder: string, place: string): CdsyncError {
  return new CdsyncError(`${folder} has files of a job, and is no cache of ${place}`, {
    code: 'cache_foreign',
    hint: 'nothing was changed. Let `cache` name another folder',
  });
}

/** Of a manifest that cannot be read; the bucket has every state that was uploaded. */
export function damagedCache(folder: string, manifest: string): CdsyncError {
  return new CdsyncError(`${manifest} is damaged: it says which state of the bucket ${folder} has`, {
    code: 'state_unreadable',
    hint: 'nothing was changed. Remove both: the next command downloads its files from the bucket again; of a run that could not upload everything, the records are read again',
  });
}

export function bucketForgot(place: string): CdsyncError {
  return new CdsyncError(`${place} has an older state than this machine has seen there, or none`, {
    code: 'bucket_older',
    hint: 'nothing was changed. Is it the right bucket and prefix? If its state was restored on purpose, remove the cache folder of the job',
  });
}
