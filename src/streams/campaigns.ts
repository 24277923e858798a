import { campaignDraftsPageOperation, campaignsPageOperation } from '../client/management-api.js';
import type { ServiceOptions } from '../core/service-options.js';
import type { ListSource } from './source.js';

/** What the campaigns and their drafts have in common. */
const facts = {
  kind: 'list',
  brings: 'everything',
  added: {},
  declared: [
    { field: 'id', type: 'VARCHAR' },
    { field: 'name', type: 'VARCHAR' },
    { field: 'deliver_at', type: 'TIMESTAMP WITH TIME ZONE' },
  ],
  container: null,
  key: ['id'],
} as const;

/** The campaigns of the tenant (specification, section 4.11). */
export function campaignsSource(destinationDataTemplateId: string | undefined): ListSource {
  return {
    ...facts,
    identity: { source: 'campaigns', template: destinationDataTemplateId ?? null },
    page: ({ token, limit, withTotal }) =>
      campaignsPageOperation({ nextToken: token, limit, withTotal, destinationDataTemplateId }),
  };
}

/** The drafts of campaigns (specification, section 4.11), under an API version of their own. */
export function campaignDraftsSource(
  destinationDataTemplateId: string | undefined,
  { apiVersions }: ServiceOptions,
): ListSource {
  return {
    ...facts,
    identity: { source: 'campaign_drafts', template: destinationDataTemplateId ?? null },
    page: ({ token, limit, withTotal }) =>
      campaignDraftsPageOperation(
        { nextToken: token, limit, withTotal, destinationDataTemplateId },
        apiVersions.campaignDrafts,
      ),
  };
}
