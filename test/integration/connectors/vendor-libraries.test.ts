import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

/** Opens a connector in a separate process, and returns how that ended. */
async function opened(connector: string): Promise<{ code: string; kind: string; message: string; hint: string }> {
  const module = resolve('connectors', connector, 'index.ts');
  const script = `
    const { default: connector } = await import(${JSON.stringify(module)});
    try {
      await connector.open({ options: {}, destination: 'target', job: 'nightly', folder: '.', signal: new AbortController().signal });
    } catch ({ code, kind, message, hint }) {
      console.log(JSON.stringify({ code, kind, message, hint }));
    }`;
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--import',
    'tsx',
    '--input-type=module',
    '-e',
    script,
  ]);
  return JSON.parse(stdout) as Awaited<ReturnType<typeof opened>>;
}

describe('a library that its vendor has, and that is not installed', () => {
  it.each([
    ['snowflake', 'snowflake-sdk'],
    ['bigquery', '@google-cloud/bigquery'],
  ])('is named by the connector %s, with what installs it', async (name, library) => {
    expect(await opened(name)).toEqual({
      code: 'connector_package_missing',
      kind: 'configuration',
      message: `the package ${library} is not installed`,
      hint: `npm install ${library}`,
    });
  });
});
