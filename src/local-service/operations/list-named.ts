import { single } from '../http/query.js';
import type { NamedList } from '../management/named-lists.js';
import type { Permission } from '../permissions.js';
import { answerPage } from './answer-page.js';
import { listingOf } from './listing.js';
import { managementApi, managementOf } from './management-api.js';
import type { Operation } from './operation.js';

function listNamed(path: string, list: NamedList, permission: Permission): Operation {
  return {
    method: 'GET',
    path: `/api/${path}`,
    guard: managementApi(permission),
    handle: (call, state) => {
      const template = list === 'segments' ? undefined : single(call.query, 'destination_data_template_id');
      const things = managementOf(call, state)
        .named(list)
        .filter((thing) => template === undefined || thing.destination_data_template_id === template);
      return answerPage(call, listingOf(`${path} ${template ?? ''}`, things), state);
    },
  };
}

/** GET /campaigns (specification, section 4.11). */
export const listCampaigns = listNamed('campaigns', 'campaigns', 'campaigns:read');
/** GET /campaign-drafts (specification, section 4.11). */
export const listCampaignDrafts = listNamed('campaign-drafts', 'campaignDrafts', 'campaign-drafts:read');
/** GET /segments (specification, section 4.11). */
export const listSegments = listNamed('segments', 'segments', 'segments:read');
