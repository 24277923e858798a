/** The service takes no longer event (published facts, Real-time API). */
export const maxEventBytes = 64 * 1024;

/** Events under way at once: about as many as the service's budget lets through in a second. */
export const eventsAtOnce = 200;
