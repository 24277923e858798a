import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/** A Python environment with some packages, or why there is none. */
export type PythonEnvironment = { readonly bin: string } | { readonly missing: string };

/**
 * Makes a Python environment in `folder` with packages from PyPI, such as `dlt==1.31.0`. If that fails, the output of the
 * step that failed goes to standard error.
 */
export async function makePython(
  folder: string,
  packages: readonly string[],
  python = 'python3',
): Promise<PythonEnvironment> {
  const bin = join(folder, 'bin');
  const steps: [string, string, string[]][] = [
    [`there is no ${python}`, python, ['--version']],
    [`${python} has no venv`, python, ['-m', 'venv', folder]],
    [`pip could not install ${packages.join(', ')}`, join(bin, 'pip'), ['install', '--quiet', ...packages]],
  ];
  for (const [missing, command, words] of steps) {
    try {
      await execute(command, words, { maxBuffer: 1 << 26 });
    } catch (error) {
      process.stderr.write(`${(error as { stderr?: string }).stderr || (error as Error).message}\n`);
      return { missing };
    }
  }
  return { bin };
}
