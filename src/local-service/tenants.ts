/** A service that has no keys yet starts with this tenant and a key of this name. */
export const defaultTenant = 'acme';
export const defaultKey = 'default';
/** Default validity of a token, in days. */
export const defaultTokenDays = 90;
/** The tenant that a sandbox belongs to, `acme` for `acme-sb-7` and `acme-sb`; any other tenant is its own. */
export function tenantFamily(tenant: string): string {
  return tenant.replace(/-sb(-\d+)?$/, '');
}
