import type { ServiceArguments } from '../service-flags.js';

/** What `cdsync init` is told on its command line. */
export interface InitArguments extends ServiceArguments {
  file: string;
  index: string[] | undefined;
  segment: string[] | undefined;
  storage: string | undefined;
  job: string | undefined;
  force: boolean;
  yes: boolean;
}
