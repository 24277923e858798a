import type { LocalService } from './service.js';

/** The lines that tell a user how to use a service that has just started. */
export function welcome(service: LocalService, profiles: number, tenantHeader: string): string[] {
  return [
    `A Customer Data Service with ${profiles.toLocaleString('en-US')} profiles listens on ${service.url}`,
    '',
    'To use it:',
    `  export CDS_BASE_URL=${service.url}`,
    `  export CDS_TENANT_ID=${service.tenantId}`,
    `  export CDS_CLIENT_ID=${service.clientId}`,
    `  export CDS_CLIENT_SECRET=${service.clientSecret}`,
    `  export CDS_TOKEN=${service.token}`,
    ...(service.oauthTokenUrl.startsWith(`${service.url}/`)
      ? []
      : [`  export CDS_OAUTH_TOKEN_URL=${service.oauthTokenUrl}`]),
    `  export CDS_CONTROL_TOKEN=${service.controlToken}`,
    '',
    'For example:',
    `  curl "$CDS_BASE_URL/api/indexes" -H "Authorization: Bearer $CDS_TOKEN" -H "${tenantHeader}: $CDS_TENANT_ID" -H "api-version: 2025-07-31"`,
    '',
    'Stop it with Ctrl-C.',
  ];
}
