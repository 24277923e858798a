/** The service takes no longer event (published facts, Real-time API). */
export const maxEventBytes = 64 * 1024;

/** Events under way at once. */
export const eventsAtOnce = 64;
