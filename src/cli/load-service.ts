import { existsSync } from 'node:fs';
import type { Config } from '../config/config.js';
import { loadConfig } from '../config/load.js';
import { defaultFile, environment } from './load.js';
import { usageError } from './output.js';
import type { ServiceArguments } from './service-flags.js';
import { parseService, servicePart } from './service-from-flags.js';

interface ServiceFileArguments extends ServiceArguments {
  config?: string | undefined;
}

/** The service for a command that needs no job: from a configuration, or from flags and the environment. */
export async function loadService(args: ServiceFileArguments): Promise<Config> {
  const env = await environment(args);
  const { config, baseUrl, tenantId } = args;
  const flags = baseUrl ?? tenantId;
  if (config !== undefined && flags !== undefined) {
    throw usageError('a configuration and flags both say where the service is', 'leave out --base-url and --tenant-id');
  }
  if (config !== undefined || (flags === undefined && existsSync(defaultFile))) {
    return loadConfig(config ?? defaultFile, { env, needs: { jobs: false } });
  }
  return parseService(servicePart(args, env), env);
}
