/** A server on whose connection nothing moves for this long is silent, unless its statements are known to take longer. */
export const silenceMs = 40_000;
/** A destination that has not responded in this time is not asked again: a silent one costs the time-out of each request. */
export const reachingMs = 25_000;
