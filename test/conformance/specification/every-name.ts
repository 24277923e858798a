import dns from 'node:dns';
import { onTestFinished, vi } from 'vitest';

type Done = (error: null, address: string | readonly dns.LookupAddress[], family?: number) => void;

/** Lets every name lead to this machine until the test ends: what resolves the names of tenants cannot be had in a test. */
export function everyNameIsHere(): void {
  const lookup = (_: string, options: dns.LookupOptions, done: Done) => {
    if (options.all) done(null, [{ address: '127.0.0.1', family: 4 }]);
    else done(null, '127.0.0.1', 4);
  };
  const spy = vi.spyOn(dns, 'lookup').mockImplementation(lookup as typeof dns.lookup);
  onTestFinished(() => spy.mockRestore());
}
