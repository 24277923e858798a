import type { ServiceArguments } from '../service-flags.js';

/** The command line of `cdsync init`. */
export interface InitArguments extends ServiceArguments {
  file: string;
  index: string[] | undefined;
  segment: string[] | undefined;
  storage: string | undefined;
  job: string | undefined;
  force: boolean;
  yes: boolean;
}
