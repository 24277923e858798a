import { createRequire } from 'node:module';
import type * as Yaml from 'yaml';

/** The parts of the package `yaml` that cdsync uses. It is required and not imported: Node reads each file twice to find the names in it. */
export const { Composer, isAlias, isMap, isScalar, isSeq, LineCounter, Parser, parseDocument, visit } = createRequire(
  import.meta.url,
)('yaml') as typeof Yaml;
