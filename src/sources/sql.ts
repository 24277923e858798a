import { z } from '../core/zod.js';
import { choice, option, text } from '../sdk/option.js';
import { source } from './declaration.js';

/** The rows of a query over other streams. It sends no request to the service. */
export const sql = source({
  name: 'sql',
  description: 'The rows of a query over other streams. cdsync runs it after the streams that it names.',
  options: {
    query: text({
      description:
        'A SELECT over the other streams of the job, by their names, and over local files. `<stream>__previous` has the rows that the last run with a commit saw. Paths are relative to the YAML file.',
      example: 'select id, ltv from members where ltv::double > 1000',
    }),
    key: option(z.array(text({ description: 'A column of the query.', example: 'id' })).min(1), {
      description: 'The columns that identify a row.',
      example: ['id'],
      allowed: 'a list of columns of the query',
    }),
    deletes: choice(['remove', 'ignore'], {
      description:
        'What becomes of rows that the query no longer returns: `remove` deletes them, `ignore` keeps them, so that the stream is a log or a ledger.',
      example: 'ignore',
    }).prefault('remove'),
  },
  group: null,
  coverage: 'everything',
  notDefining: ['deletes'],
  declared: {},
  key: { option: 'key' },
  hashesKey: true,
  refusedRules: { names: ['rename', 'type'], instead: 'let the query do it: a cast, or AS' },
  readOptions: ({ query, deletes }) => ({ query, ...(deletes === 'ignore' && { coverage: 'additions' }) }),
});
