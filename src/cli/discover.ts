import {
  type Command,
  configPositional,
  flag,
  type ServiceArguments,
  serviceOptions,
  wholeNumber,
} from './arguments.js';
import { Output } from './output.js';

interface DiscoverArguments extends ServiceArguments {
  config?: string | undefined;
  sample: number;
  totals: boolean;
  filters: boolean;
}

const largestSample = 10_000;

/** `cdsync discover`: lists the sources of a tenant, with their types. */
export const discoverCommand: Command<ServiceArguments, DiscoverArguments> = {
  builder: (parser) =>
    serviceOptions(configPositional(parser))
      .options({
        sample: { ...wholeNumber('sample', 'profiles of each index to look at', [1, largestSample]), default: 500 },
        totals: flag('ask how many profiles there are: can be expensive'),
        filters: flag('ask which attributes can be filtered: one request each'),
      })
      .example('$0 discover', 'the service of ./cdsync.yaml')
      .example('$0 discover --base-url https://cds.example.com --tenant-id acme', 'no file, secrets from $CDS_TOKEN')
      .epilogue(
        'Reads a sample of profiles and shows none of their values.\n' +
          'Exit codes: 0 all is well, even if the key may not read a part; 2 wrong usage; 4 refused; 1 something failed.',
      ),
  handler: discover,
};

async function discover(args: DiscoverArguments): Promise<void> {
  const { sample, totals, filters } = args;
  const { applyConfigToOutput } = await import('./load.js');
  const { loadService } = await import('./service-from-flags.js');
  const { withExplorer } = await import('../engine/inspect/explorer.js');
  const { discoverService, errorsOf } = await import('../engine/inspect/discover-service.js');
  const { discoveryLines } = await import('../output/discovery.js');
  const { inquiryOptions } = await import('./engine-options.js');
  const { interruption } = await import('./interruption.js');
  const output = new Output(args);
  const config = await loadService(args);
  applyConfigToOutput(config, output);
  const stop = interruption(output);
  try {
    const options = inquiryOptions(stop, output, config.service);
    const discovery = await withExplorer(config.service, options, (explorer) =>
      discoverService(explorer, { sample, totals, filters }),
    );
    output.document(discovery);
    for (const line of discoveryLines(discovery, { totals, filters })) output.result(line);
    if (discovery.status === 'ok') return;
    const failures = errorsOf(discovery).filter(({ withheld }) => !withheld);
    const code = failures.every(({ auth }) => auth) ? 4 : 1;
    process.exitCode = code;
    output.last(code === 4 ? 'give the API key more permissions, then: cdsync discover' : 'next: cdsync discover');
  } finally {
    stop.release();
  }
}
