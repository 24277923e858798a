/** The tenant that a sandbox belongs to, `acme` for `acme-sb-7` and `acme-sb`; any other tenant is its own. */
export function tenantFamily(tenant: string): string {
  return tenant.replace(/-sb(-\d+)?$/, '');
}
