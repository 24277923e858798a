import { connectors } from '../../connectors/index.js';
import { sources } from '../sources/sources.js';
import { fileSchemaWith, jobSchemaWith } from './job-options.js';

/** The schema of a job with all connectors and sources that come with cdsync. */
export const jobSchema = jobSchemaWith({
  connectors: connectors.map((connector) => [connector.name, connector]),
  sources,
});
/** The schema of a file of such jobs. */
export const fileSchema = fileSchemaWith(jobSchema);
