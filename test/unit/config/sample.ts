import { connectors } from '../../../connectors/index.js';
import type { Config } from '../../../src/config/config.js';
import { type Needs, parseConfig } from '../../../src/config/parse.js';
import { ConfigError, formatProblem } from '../../../src/config/problem.js';
import type { Variables } from '../../../src/config/variables.js';

/** The connectors that come with cdsync, as a file may name them. */
export const builtIn = new Map(connectors.map((connector) => [connector.name, connector]));

/** The folder that the samples pretend to be in; nothing is read from it. */
export const folder = '/srv/sync';
export const file = `${folder}/cdsync.yaml`;

/** The first 6 lines of a valid configuration. */
export const head = `version: 1
service:
  base_url: http://127.0.0.1:8787
  tenant_id: acme
  auth: { token_file: ./token }
storage: ./data
`;

/** A whole configuration with one job, `a`, whose one stream has these lines (from line 11, column 9). */
export function withStream(...lines: string[]): string {
  return `${head}jobs:
  a:
    streams:
      - name: members
${lines.map((line) => `        ${line}\n`).join('')}`;
}

export const members = ['source: index_profiles', 'index: loyalty_members'];

export function parse(text: string, env: Variables = {}, needs: Needs = {}): Config {
  return parseConfig(text, file, { env, needs, cwd: folder, connectors: builtIn });
}

/** The lines of the error for a text; empty if the text is valid. */
export function problemsOf(text: string, env: Variables = {}, needs: Needs = {}): string[] {
  try {
    parse(text, env, needs);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.map(formatProblem);
    throw error;
  }
}
