// Builds dist/ in a checkout that has none yet.

import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
if (!existsSync(join(root, 'dist', 'src', 'cli', 'main.js')))
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: 'inherit' });
