import { z } from 'zod';
import { option, text } from '../sdk/option.js';
import { source } from './declaration.js';

/** The rows of a query over other streams. It sends no request to the service. */
export const sql = source({
  name: 'sql',
  description: 'The rows of a query over other streams. cdsync runs it after the streams that it names.',
  options: {
    query: text({
      description:
        'A SELECT over the other streams of the job, by their names, and over local files. Paths are relative to the YAML file.',
      example: 'select id, ltv from members where ltv::double > 1000',
    }),
    key: option(z.array(text({ description: 'A column of the query.', example: 'id' })).min(1), {
      description: 'The columns that identify a row.',
      example: ['id'],
      allowed: 'a list of columns of the query',
    }),
  },
  group: null,
  coverage: 'everything',
  declared: {},
  key: { option: 'key' },
  hashesKey: true,
  refusedRules: { names: ['rename', 'type'], instead: 'let the query do it: a cast, or AS' },
  readOptions: ({ query }) => ({ query }),
});
