import { tableConnector } from '../../src/sdk/index.js';
import { checkFiles, filesOptions } from './options.js';
import { filesTypes } from './types.js';

export default tableConnector({
  name: 'files',
  summary:
    'Writes Parquet, CSV or JSON lines into a folder, an S3 store or Azure, with a manifest that always names a whole set of files.',
  options: filesOptions,
  optionRules: { check: checkFiles },
  capabilities: {
    format: 'parquet',
    // Readers of CSV trim the names in its header.
    identifiers: { begins: /^\S/, ends: /\S$/ },
  },
  place: ({ path: folder, url, endpoint, account }) =>
    folder ?? `${endpoint ?? account ?? ''} ${url?.replace(/(?<!\/)\/+$/, '')}`,
  ...filesTypes,
  check: async (context) => (await import('./check.js')).checkFilesPlace(context),
  open: async (context) => (await import('./open.js')).openFiles(context),
});
