import { lstat, mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A folder on this machine that only this user can enter, for sockets. */
export async function runtimeFolder(given = process.env.XDG_RUNTIME_DIR): Promise<string> {
  if (process.getuid === undefined) throw new Error('this system has no user ids');
  const uid = process.getuid();
  // Cron and login sessions of one user must find each other, and only the latter have the variable.
  const places = [given, `/run/user/${uid}`].filter((place) => place !== undefined && place !== '') as string[];
  for (const place of places) {
    if (await isPrivate(place, uid)) return privateFolder(join(place, 'cdsync'), uid);
  }
  return privateFolder(join(tmpdir(), `cdsync-${uid}`), uid);
}

/** Makes the folder if it is missing. @throws {Error} if it is a link, somebody else's, or open to others */
async function privateFolder(path: string, uid: number): Promise<string> {
  await mkdir(path, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  if (!(await isPrivate(path, uid))) throw new Error(`${path} is not a folder of mode 0700 that belongs to this user`);
  return path;
}

async function isPrivate(path: string, uid: number): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined);
  return found?.isDirectory() === true && found.uid === uid && (found.mode & 0o077) === 0;
}
