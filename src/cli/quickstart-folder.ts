import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CdsyncError } from '../core/errors.js';
import { makeFolders } from '../core/folders.js';
import { usageError } from './output.js';
import { stateFileName } from './own-command.js';

/** Port of the local service unless something else has it: the default of `serve`. */
export const servicePort = 8787;

export const quickstartJob = 'quickstart';
const marker = '# Written by `cdsync quickstart`';

/** The login that the local service prints. */
export interface LocalLogin {
  readonly tenant_id: string;
  readonly client_id: string;
  readonly client_secret: string;
}

/** The files of a quickstart, below the folder that the user names. */
export class QuickstartFolder {
  readonly config: string;
  readonly state: string;
  readonly job: string;
  /** Profiles of the service of an earlier quickstart here; undefined if there was none. */
  readonly profiles: number | undefined;

  private constructor(paths: { config: string; state: string; job: string }, profiles: number | undefined) {
    this.config = paths.config;
    this.state = paths.state;
    this.job = paths.job;
    this.profiles = profiles;
  }

  /**
   * Looks at a folder, which need not exist. It may have the user's files, and those of an earlier quickstart.
   * @throws {CdsyncError} `usage` if a file is in the way
   */
  static async open(folder: string): Promise<QuickstartFolder> {
    const data = join(folder, 'data');
    const config = join(folder, 'cdsync.yaml');
    const paths = { config, state: join(data, stateFileName), job: join(data, quickstartJob) };
    const text = await readFile(config, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined;
      throw usageError(`${config} cannot be read: ${error.code}`, anotherFolder);
    });
    if (text?.startsWith(marker))
      return new QuickstartFolder(paths, Number(/--profiles (\d+)/.exec(text)?.[1] ?? defaultProfiles));
    const inTheWay = [paths.config, paths.job].find((path) => existsSync(path));
    if (inTheWay !== undefined)
      throw usageError(`${inTheWay} exists already, and is not of a quickstart`, anotherFolder);
    return new QuickstartFolder(paths, undefined);
  }

  /** Makes the folder ready for the state of the service. @throws {CdsyncError} `config_unwritable` */
  async make(): Promise<void> {
    await makeFolders(dirname(this.state), 0o700).catch(unwritable(this.state));
  }

  /** Writes the configuration. Never over a file. @throws {CdsyncError} `config_unwritable` */
  async write(login: LocalLogin, profiles: number): Promise<void> {
    await writeFile(this.config, configText(login, profiles), { flag: 'wx', mode: 0o600 }).catch(
      unwritable(this.config),
    );
  }
}

export const defaultProfiles = 100_000;
const anotherFolder = 'quickstart writes over nothing. Name another folder: cdsync quickstart try-cdsync';

function unwritable(path: string) {
  return (cause: NodeJS.ErrnoException): never => {
    throw new CdsyncError(`${path} cannot be written: ${cause.code ?? 'unknown error'}`, {
      code: 'config_unwritable',
      hint: 'name a folder that this user may write to: cdsync quickstart FOLDER',
      cause,
    });
  };
}

function configText({ tenant_id, client_id, client_secret }: LocalLogin, profiles: number): string {
  return `${marker}. Change it as you like: nothing overwrites it.
version: 1

service:
  # The service on this machine. Before \`cdsync run\`, start it in another terminal, in this folder:
  #   npx --no-install cdsync serve --state data/local-service.json --profiles ${profiles}
  # For your own service, set these variables, or let \`cdsync init\` write a configuration.
  base_url: \${CDS_BASE_URL:-http://127.0.0.1:${servicePort}}
  tenant_id: \${CDS_TENANT_ID:-${tenant_id}}
  auth:
    # The login of the local service. It is the same on every machine, so it is no secret.
    client_id: \${CDS_CLIENT_ID:-${client_id}}
    client_secret: \${CDS_CLIENT_SECRET:-${client_secret}}

# Relative to this file.
storage: ./data

defaults:
  # The service sends every value as text. Text that is a number, a date or true and false becomes one.
  strings: infer

jobs:
  ${quickstartJob}:
    streams:
      # Every profile of the index, in one table called members.
      - name: members
        source: index_profiles
        index: loyalty_members # its id or its name

      # Only those whose attribute tier is gold.
      - name: gold_members
        source: index_profiles
        index: loyalty_members
        filter: { tier: gold }

      # A query over other streams.
      - name: big_spenders
        source: sql
        key: [id]
        query: select id, tier, ltv from members where ltv::double > 2000

      # A ledger of merged profiles: the ids that have the e-mail that another id had before. Rows stay, as people do not come back.
      - name: became
        source: sql
        key: [old_id, new_id]
        deletes: ignore
        guards: { min_rows: 0 }
        query: |
          select o.id as old_id, n.id as new_id, if(o.id in (select id from members), 'split', 'merge') as how
          from members__previous as o join members as n on n.email = o.email and n.id <> o.id
`;
}
