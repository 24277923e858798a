import type { FaultKind } from '../fault.js';
import { clock } from './clock.js';
import { damage } from './damage.js';
import { diskFills, diskFull } from './disk-full.js';
import { drippingResponses, giantBodies } from './endless-responses.js';
import { failingSteps } from './failing-steps.js';
import { fileSize } from './file-size.js';
import { killAgain, killInstants } from './kill-instants.js';
import { killSteps } from './kill-steps.js';
import { lackingStorage } from './lacking-storage.js';
import { largeValues } from './large-values.js';
import { outages, silentUrls } from './outages.js';
import { permissions } from './permissions.js';
import { movingService, serviceDeath } from './service-death.js';
import { serviceFaults } from './service-faults.js';
import { sharedLimit } from './shared-limit.js';
import { signals } from './signals.js';
import { systemCalls } from './system-calls.js';
import { twoRuns } from './two-runs.js';

export const faultKinds: readonly FaultKind[] = [
  killSteps,
  killInstants,
  killAgain,
  systemCalls,
  signals,
  failingSteps,
  diskFull,
  diskFills,
  fileSize,
  permissions,
  clock,
  damage,
  serviceFaults,
  giantBodies,
  largeValues,
  drippingResponses,
  serviceDeath,
  movingService,
  outages,
  silentUrls,
  lackingStorage,
  twoRuns,
  sharedLimit,
];
