import { faultOf } from '../faults/fault.js';
import { single } from '../http/query.js';
import { notFound } from '../http/service-error.js';
import type { NamedList } from '../management/named-lists.js';
import type { Permission } from '../permissions.js';
import { answerPage } from './answer-page.js';
import { listingOf } from './listing.js';
import { managementApi, managementOf } from './management-api.js';
import type { Call, Operation } from './operation.js';

/** Some deployments have campaign drafts under one version alone. @throws {ServiceError} 404 */
function refuseVersion({ faults, request, query }: Call): void {
  const fault = faultOf(faults, 'drafts_version');
  if (fault === undefined) return;
  const version = request.headers['api-version'] ?? single(query, 'api_version');
  if ((version === 'unstable') !== (fault.only === 'unstable')) throw notFound('there is no such path');
}

function listNamed(path: string, list: NamedList, permission: Permission): Operation {
  return {
    method: 'GET',
    path: `/api/${path}`,
    guard: managementApi(permission),
    handle: (call, state) => {
      if (list === 'campaignDrafts') refuseVersion(call);
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
