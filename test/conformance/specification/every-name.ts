import dns from 'node:dns';
import { onTestFinished, vi } from 'vitest';

type Done = (error: null, address: string | readonly dns.LookupAddress[], family?: number) => void;

/** Resolves every host name to this machine until the test ends: a test has no DNS for the names of tenants. */
export function everyNameIsHere(): void {
  const lookup = (_: string, options: dns.LookupOptions, done: Done) => {
    if (options.all) done(null, [{ address: '127.0.0.1', family: 4 }]);
    else done(null, '127.0.0.1', 4);
  };
  const spy = vi.spyOn(dns, 'lookup').mockImplementation(lookup as typeof dns.lookup);
  onTestFinished(() => spy.mockRestore());
}
