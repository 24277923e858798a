// `npm run reference`: writes the pages and files that derive from the declared options: docs/configuration.md, the JSON Schema for
// editors, and the tables of options in each connector's README, between its two marks.

import { readFileSync, writeFileSync } from 'node:fs';
import { connectors } from '../connectors/index.ts';
import { configJsonSchema } from '../src/config/json-schema.ts';
import { configReference, connectorReference, withOptions } from '../src/config/reference.ts';

writeFileSync('docs/configuration.md', configReference());
writeFileSync('configs/cdsync.schema.json', `${JSON.stringify(configJsonSchema(), null, 2)}\n`);
for (const { name } of connectors) {
  const page = `connectors/${name}/README.md`;
  writeFileSync(page, withOptions(readFileSync(page, 'utf8'), connectorReference(name)));
}
