import type { ServiceOptions } from '../core/service-options.js';
import { accountOf, type LimitShare } from './budget.js';
import { MeetingPlace } from './meeting-place.js';
import { runtimeFolder } from './runtime-folder.js';

/** The share of the Profile API's limit that another process of this user has; undefined if that cannot be found out. */
export async function readLimitShare(service: ServiceOptions, pid: number): Promise<LimitShare | undefined> {
  try {
    const place = new MeetingPlace(await runtimeFolder(), accountOf(service, 'profile'));
    const shares = await place.look();
    const own = shares?.find((share) => share.pid === pid);
    if (shares === undefined || own === undefined) return undefined;
    return { part: Math.min(1, own.permits / service.rateLimits.profile), otherProcesses: shares.length - 1 };
  } catch {
    // It is only shown.
    return undefined;
  }
}
