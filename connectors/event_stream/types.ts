/** The longest event that the service accepts (published facts, Real-time API). */
export const maxEventBytes = 64 * 1024;

/** Most events under way at the same time. */
export const eventsAtOnce = 64;
