/** The tenant, and the name of its key, that a service has that was started without any. */
export const defaultTenant = 'acme';
export const defaultKey = 'default';
/** Validity of tokens where nobody says otherwise. */
export const defaultTokenDays = 90;
