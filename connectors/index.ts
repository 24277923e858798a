import { builtIn } from './built-in.js';

/** All connectors that come with cdsync. */
export const connectors = await Promise.all(Object.values(builtIn).map(async (load) => (await load()).default));
