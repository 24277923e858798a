import { z } from 'zod';

/** What names a job, a stream or a destination: views and macros of cdsync take the endings and the double underscore. */
export const namePattern = /^(?!.*__)(?!.*_(?:as_of|history|changes)$)[a-z][a-z0-9_]{0,47}$/;

/** The same rule in words. */
export const nameRule =
  '1 to 48 of a-z, 0-9 and _, beginning with a letter, without "__" and not ending in _as_of, _history or _changes';

/** The name of a job or a destination. */
export const nameSchema = z.string().regex(namePattern);

/** The name of a stream: beside its table, the published file has a schema called cdsync. */
export const streamNameSchema = z.string().regex(new RegExp(`(?!^cdsync$)${namePattern.source}`));
