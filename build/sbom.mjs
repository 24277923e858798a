// `npm run sbom`: dist/sbom.json, the packages of the lock file with versions and checksums (CycloneDX). Part of `npm pack`.

import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
const words = ['sbom', '--package-lock-only', '--sbom-format=cyclonedx'];
const output = { cwd: root, encoding: 'utf8', shell: process.platform === 'win32', maxBuffer: 1 << 28 };
const sbom = JSON.parse(execFileSync('npm', words, output));

/** npm's --omit=dev leaves out packages that one of development takes too: pg, yaml and zod for example. */
const isInstalled = ({ properties }) => !properties.some(({ name }) => name === 'cdx:npm:package:development');
sbom.components = sbom.components.filter(isInstalled);
const refs = new Set([sbom.metadata.component, ...sbom.components].map((component) => component['bom-ref']));
sbom.dependencies = sbom.dependencies
  .filter(({ ref }) => refs.has(ref))
  .map(({ ref, dependsOn = [] }) => ({ ref, dependsOn: dependsOn.filter((other) => refs.has(other)) }));
// npm takes the name of the folder.
sbom.metadata.component.name = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).name;
writeFileSync(join(root, 'dist', 'sbom.json'), `${JSON.stringify(sbom, null, 1)}\n`);
