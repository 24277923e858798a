import { ServiceError } from '../client/client.js';
import { campaignDraftsPageOperation } from '../client/management-api.js';
import type { ServiceOptions } from '../core/service-options.js';
import type { SourceContext } from './declaration.js';

type DraftsContext = Pick<SourceContext, 'client' | 'signal' | 'meter' | 'notice' | 'service'>;

/** The version to try if the configured one has no drafts. */
function otherVersion({ campaignDrafts, management }: ServiceOptions['apiVersions']): string {
  if (campaignDrafts !== 'unstable') return 'unstable';
  return management === 'unstable' ? '2024-04-01' : management;
}

/** Whether the service has no drafts under the version that was sent, or refuses that version. */
function refusesVersion(error: unknown): error is ServiceError {
  if (!(error instanceof ServiceError)) return false;
  if (error.status === 404) return true;
  return (error.status === 400 || error.status === 401) && /version/i.test(error.serviceMessage ?? '');
}

/**
 * Finds the version under which the service has campaign drafts: on many deployments `unstable` alone (published facts,
 * Management API). Tries the configured one, then the other, and tells if it is the other.
 * @throws {ServiceError} the refusal of the configured version if both are refused; what the client throws
 */
export async function draftsVersion({ client, signal, meter, notice, service }: DraftsContext): Promise<string> {
  const { apiVersions } = service;
  const configured = apiVersions.campaignDrafts;
  const ask = (version: string) =>
    client.send(campaignDraftsPageOperation({ limit: 1 }, version), () => undefined, { signal, meter });
  try {
    await ask(configured);
    return configured;
  } catch (first) {
    if (!refusesVersion(first)) throw first;
    const other = otherVersion(apiVersions);
    try {
      await ask(other);
    } catch (second) {
      if (!refusesVersion(second)) throw second;
      throw neither(first, [configured, other]);
    }
    notice(
      `campaign drafts: the service answers under version ${other}, and not under ${configured}; ` +
        `set \`api_versions.campaign_drafts: ${other}\` to spare a request`,
    );
    return other;
  }
}

function neither(first: ServiceError, [configured, other]: readonly [string, string]): ServiceError {
  return new ServiceError(first.message, {
    code: first.code,
    kind: first.kind,
    status: first.status,
    serviceMessage: first.serviceMessage,
    requestId: first.requestId,
    traceId: first.traceId,
    hint: `the service has campaign drafts neither under version ${configured} nor under ${other}: set \`api_versions.campaign_drafts\` to the version of its documentation`,
    cause: first,
  });
}
