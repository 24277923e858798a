// `npm run build`: dist/ anew, by the compiler, which takes more options.

import { execFileSync } from 'node:child_process';
import { chmodSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const root = join(import.meta.dirname, '..');
const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc');

rmSync(join(root, 'dist'), { recursive: true, force: true });
execFileSync(process.execPath, [compiler, '-p', 'tsconfig.build.json', ...process.argv.slice(2)], {
  cwd: root,
  stdio: 'inherit',
});
chmodSync(join(root, 'dist', 'src', 'cli', 'main.js'), 0o755);
