// `npm test`: types, lint and unit tests side by side. The output of each follows when it has ended; the first that fails fails all.

import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';

async function script(name) {
  const child = spawn('npm', ['run', '--silent', name], { stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise((resolve) => child.once('close', resolve));
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const code = await ended;
  process.stdout.write(`== npm run ${name}\n${output}${errors}`);
  if (code !== 0) process.exitCode = 1;
}

async function typesAndLint() {
  await script('types');
  await script('lint');
}

await Promise.all([script('unit'), typesAndLint()]);
