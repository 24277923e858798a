// `npm run reference`: writes the pages and files that derive from declarations: docs/configuration.md, the JSON Schema for editors, and,
// between their two marks, the options in each connector's README and the metrics in docs/monitoring.md.

import { readFileSync, writeFileSync } from 'node:fs';
import { connectors } from '../connectors/index.ts';
import { configJsonSchema } from '../src/config/json-schema.ts';
import { configReference, connectorReference, withOptions } from '../src/config/reference.ts';
import { families, prometheusName, samplesOf } from '../src/metrics/samples.ts';
import { destinationReport, runEnd } from '../test/fixtures/run-ends.ts';

writeFileSync('docs/configuration.md', configReference());
writeFileSync('configs/cdsync.schema.json', `${JSON.stringify(configJsonSchema(), null, 2)}\n`);
for (const { name } of connectors) {
  const page = `connectors/${name}/README.md`;
  writeFileSync(page, withOptions(readFileSync(page, 'utf8'), connectorReference(name)));
}

/** The labels that a run with everything in it gives its metrics. */
const samples = samplesOf(runEnd({ destinations: [destinationReport()] }), []);
const lines = families.map((family) => {
  const labels = samples.find(({ name }) => name === family.name)?.labels ?? {};
  return `| \`${prometheusName(family)}\` | ${family.kind} | ${Object.keys(labels).join(', ')} | ${family.help} |`;
});
const table = ['| metric | type | labels | meaning |', '|---|---|---|---|', ...lines].join('\n');
const page = readFileSync('docs/monitoring.md', 'utf8');
const marks = /(<!-- metrics: npm run reference -->\n)[\s\S]*?(<!-- end of metrics -->)/;
writeFileSync(
  'docs/monitoring.md',
  page.replace(marks, (_, begin, end) => `${begin}\n${table}\n\n${end}`),
);
