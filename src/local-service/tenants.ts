/** A service that has no keys yet starts with this tenant and a key of this name. */
export const defaultTenant = 'acme';
export const defaultKey = 'default';
/** Default validity of a token, in days. */
export const defaultTokenDays = 90;
