import { campaignDraftsPageOperation, campaignsPageOperation } from '../api/management-api.js';
import { verbatim } from '../sdk/option-types.js';
import { source } from './declaration.js';
import type { RecordFacts } from './source.js';

/** What the campaigns and their drafts have in common. */
const facts: RecordFacts = {
  brings: 'everything',
  declared: [
    { field: 'id', type: 'VARCHAR' },
    { field: 'name', type: 'VARCHAR' },
    { field: 'deliver_at', type: 'TIMESTAMP WITH TIME ZONE' },
  ],
  container: null,
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
  ...facts,
  pages: {},
  open: ({ destinationDataTemplateId }) => ({
    kind: 'list',
    asked: { template: destinationDataTemplateId ?? null },
    page: ({ token, limit, withTotal }) =>
      campaignsPageOperation({ nextToken: token, limit, withTotal, destinationDataTemplateId }),
  }),
});

/** The drafts of campaigns (specification, section 4.11), under an API version of their own. */
export const campaignDrafts = source({
  name: 'campaign_drafts',
  description:
    'The drafts of campaigns, under `service.api_versions.campaign_drafts`, or `unstable` if the service has none there.',
  options,
  group: 'management',
  ...facts,
  pages: {},
  open: async ({ destinationDataTemplateId }, context) => {
    const { draftsVersion } = await import('./drafts-version.js');
    const version = await draftsVersion(context);
    return {
      kind: 'list',
      asked: { template: destinationDataTemplateId ?? null },
      page: ({ token, limit, withTotal }) =>
        campaignDraftsPageOperation({ nextToken: token, limit, withTotal, destinationDataTemplateId }, version),
    };
  },
});
