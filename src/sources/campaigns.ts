import { campaignDraftsPageOperation, campaignsPageOperation } from '../api/management-api.js';
import { ServiceError } from '../api/service-error.js';
import type { ServiceOptions } from '../core/service-options.js';
import { verbatim } from '../sdk/option.js';
import { type SourceContext, source } from './declaration.js';
import type { RecordProperties } from './source.js';

/** The properties that campaigns and their drafts share. */
const properties: RecordProperties = {
  coverage: 'everything',
  declared: { id: 'VARCHAR', name: 'VARCHAR', deliver_at: 'TIMESTAMP WITH TIME ZONE' },
  key: ['id'],
};

const options = {
  destination_data_template_id: verbatim({
    description: 'Only those whose destination data template has this id.',
    example: 'ddt-1',
  }).optional(),
};

/** The campaigns of the tenant (specification, section 4.11). */
export const campaigns = source({
  name: 'campaigns',
  description: 'The campaigns of the tenant.',
  options,
  group: 'management',
  ...properties,
  pages: {},
  open: ({ destinationDataTemplateId }) => ({
    kind: 'list',
    asked: { template: destinationDataTemplateId ?? null },
    page: ({ token, limit, withTotal }) =>
      campaignsPageOperation({ nextToken: token, limit, withTotal, destinationDataTemplateId }),
  }),
});

type DraftsContext = Pick<SourceContext, 'client' | 'signal' | 'meter' | 'notice' | 'service'>;

/** The version to try if the configured one has no drafts. */
function otherVersion({ campaignDrafts, management }: ServiceOptions['apiVersions']): string {
  if (campaignDrafts !== 'unstable') return 'unstable';
  return management === 'unstable' ? '2024-04-01' : management;
}

/**
 * Whether this may be the service's way to refuse a version: its response then is not published, and a 401 may say no more
 * than that of a bad token (published notes). Only the other version shows which.
 */
function mayRefuseVersion(error: unknown): error is ServiceError {
  return error instanceof ServiceError && [400, 401, 404, 405].includes(error.status ?? 0);
}

/**
 * Finds the version under which the service has campaign drafts: on many deployments `unstable` alone (published notes,
 * Management API). Tries the configured one, then the other, and gives a notice if it is the other.
 * @throws {ServiceError} with both responses, if both are refused; errors of the client
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
    if (!mayRefuseVersion(first)) throw first;
    const other = otherVersion(apiVersions);
    try {
      await ask(other);
    } catch (second) {
      if (!mayRefuseVersion(second)) throw second;
      throw neither([configured, first], [other, second]);
    }
    notice(
      `campaign drafts: the service answers under version ${other}, and not under ${configured}; ` +
        `set \`api_versions.campaign_drafts: ${other}\` to spare a request`,
    );
    return other;
  }
}

function neither(...refused: readonly (readonly [version: string, error: ServiceError])[]): ServiceError {
  const refusals = refused.map(([version, error]) => `under version ${version}: ${error.message}`);
  // A bad token gets a 401 to both, too. Any other response shows that the token is accepted.
  const [, refusal] = refused.find(([, { status }]) => status !== 401) ?? (refused[0] as [string, ServiceError]);
  return new ServiceError(`the service shows no campaign drafts; ${refusals.join('; ')}`, {
    code: refusal.code,
    kind: refusal.kind,
    status: refusal.status,
    serviceMessage: refusal.serviceMessage,
    requestId: refusal.requestId,
    traceId: refusal.traceId,
    hint:
      refusal.status === 401
        ? `if other streams of this token can be read, set \`api_versions.campaign_drafts\` to the version of the service's documentation; otherwise: ${refusal.hint}`
        : "set `api_versions.campaign_drafts` to the version of the service's documentation",
    cause: refusal,
  });
}

/** The drafts of campaigns (specification, section 4.11), under an API version of their own. */
export const campaignDrafts = source({
  name: 'campaign_drafts',
  description:
    'The drafts of campaigns, under `service.api_versions.campaign_drafts`, or `unstable` if the service has none there.',
  options,
  group: 'management',
  ...properties,
  pages: {},
  open: async ({ destinationDataTemplateId }, context) => {
    const version = await draftsVersion(context);
    return {
      kind: 'list',
      asked: { template: destinationDataTemplateId ?? null },
      page: ({ token, limit, withTotal }) =>
        campaignDraftsPageOperation({ nextToken: token, limit, withTotal, destinationDataTemplateId }, version),
    };
  },
});
