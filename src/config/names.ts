import { z } from 'zod';

/** The name of a job, a stream or a destination. cdsync's own views and macros use the endings and the double underscore. */
export const namePattern = /^(?!.*__)(?!.*_(?:as_of|history|changes)$)[a-z][a-z0-9_]{0,47}$/;

/** The same rule in words. */
export const nameRule =
  '1 to 48 of a-z, 0-9 and _, beginning with a letter, without "__" and not ending in _as_of, _history or _changes';

/** The name of a job or a destination. */
export const nameSchema = z.string().regex(namePattern);

/** The name of a stream. It may not be cdsync, for the published file has a schema of that name beside the tables. */
export const streamNameSchema = z.string().regex(new RegExp(`(?!^cdsync$)${namePattern.source}`));
