import { expect, it } from 'vitest';
import { refusal } from '../../../connectors/duckdb/errors.js';
import { lakeError } from '../../../connectors/ducklake/errors.js';
import { asCdsyncError } from '../../../src/core/errors.js';
import { databaseError } from '../../../src/sdk/duckdb/errors.js';

const shown = { catalog: 'lake.ducklake', redact: (text: string) => text };
const lacking = [
  'Out of Memory Error: failed to allocate data of size 512.0 KiB (206.4 MiB/206.9 MiB used)',
  'TransactionContext Error: Failed to commit: could not allocate block of size 256.0 KiB (243.8 MiB/244.1 MiB used)',
  'TransactionContext Error: Failed to commit: failed to pin block of size 256.0 KiB (243.8 MiB/244.1 MiB used)',
  'TransactionContext Error: Failed to commit: Checkpoint failed for database "store". The database has been invalidated. Original error: failed to pin block of size 1.9 MiB (458.2 MiB/459.6 MiB used)',
  'FATAL Error: Failed to create checkpoint because of error: failed to pin block of size 256.0 KiB (1.9 GiB/1.9 GiB used)',
  'Out of Memory Error: failed to pin block of size 256.0 KiB (243.8 MiB/244.1 MiB used), being used by another statement',
];

it.each(lacking)('a want of memory is reported as one, and not tried again: %s', (message) => {
  for (const error of [refusal(new Error(message)), lakeError(new Error(message), shown)])
    expect(error).toMatchObject({
      code: 'destination_refused',
      message: expect.stringContaining('needs more memory'),
      hint: expect.stringContaining('memory_mb'),
    });
});

it.each([
  'IO Error: Could not set lock on file "/data/w.duckdb": Conflicting lock is held in node (PID 7)',
  'TransactionContext Error: Conflict on tuple deletion!',
])('a lock is reported as one: %s', (message) => {
  expect(refusal(new Error(message))).toMatchObject({ kind: 'retryable', message: expect.stringContaining('in use') });
});

it.each([
  'Out of Memory Error: Failed to allocate block of 262144 bytes (bad allocation)',
  `IO Error: Detached database 'store', but CHECKPOINT during DETACH failed.
Checkpoint failed for database "store". The database has been invalidated. Original error: Allocation failure`,
])('memory that the system refuses is not reported as that of cdsync: %s', (message) => {
  const limit = { hint: expect.stringMatching(/^(?!.*raise).*ulimit -v/) };
  expect(databaseError(new Error(message))).toMatchObject({ code: 'memory_refused', ...limit });
  expect(refusal(new Error(message))).toMatchObject({ code: 'destination_refused', ...limit });
});

it('and neither is a library that finds no addresses', () => {
  const error = asCdsyncError(new Error('libduckdb.so: failed to map segment from shared object'));
  expect(error).toMatchObject({ code: 'memory_refused', hint: expect.stringContaining('ulimit -v') });
  expect(databaseError(new Error(lacking[0]))).toMatchObject({ code: 'memory_exceeded' });
});
