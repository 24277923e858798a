import { getCollectionHistory } from './get-collection-history.js';
import { getCollectionStats } from './get-collection-stats.js';
import { getRealtimeProfile } from './get-realtime-profile.js';
import { listProfileSegments } from './list-profile-segments.js';
import { listSegmentMembers } from './list-segment-members.js';
import { lookupByBody, lookupByQuery } from './lookup-profile.js';
import type { Operation } from './operation.js';
import { sendEvent } from './send-event.js';

/** The Real-time API (specification, sections 4.6, 4.7, 4.8 and 4.10). */
export const realtimeOperations: readonly Operation[] = [
  sendEvent,
  lookupByBody,
  lookupByQuery,
  getRealtimeProfile,
  listProfileSegments,
  listSegmentMembers,
  getCollectionStats,
  getCollectionHistory,
];
