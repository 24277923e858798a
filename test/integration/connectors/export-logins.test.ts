import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createHash, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import ssh2, { type AuthContext, type Server } from 'ssh2';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import exportConnector from '../../../connectors/export/index.js';
import { map } from '../../../src/sdk/option.js';
import { SshServer, sshdIsInstalled } from '../../fixtures/sshd.js';

/** The findings of a check of a destination, or its error. */
async function checked(own: Record<string, unknown>) {
  const written = { file: 'list_{{ sequence }}.csv', ...own };
  const options = z.parse(map(exportConnector.options), written) as never;
  const about = { destination: 'partner', job: 'nightly', folder: tmpdir(), notice: () => undefined };
  const context = { ...about, options, signal: new AbortController().signal };
  return exportConnector.check?.(context as never, []).then(
    ({ reached }) => reached,
    ({ code, message }: { code: string; message: string }) => `${code}: ${message}`,
  );
}

describe.skipIf(!sshdIsInstalled())('the login of an SSH agent', () => {
  let server: SshServer;
  let folder: string;
  let agent: ChildProcess;
  const before = process.env.SSH_AUTH_SOCK;
  const options = () => ({ url: server.url, host_key: server.prints.ed25519, agent: true });
  beforeAll(async () => {
    server = await SshServer.start();
    folder = await mkdtemp(join(tmpdir(), 'cdsync-agent-'));
    const socket = join(folder, 'agent');
    agent = spawn('ssh-agent', ['-D', '-a', socket], { stdio: 'ignore' });
    while (!existsSync(socket)) await new Promise((resolve) => setTimeout(resolve, 20));
  });
  afterEach(() => {
    if (before === undefined) delete process.env.SSH_AUTH_SOCK;
    else process.env.SSH_AUTH_SOCK = before;
  });
  afterAll(async () => {
    const ended = once(agent, 'exit');
    agent.kill();
    await ended;
    await rm(folder, { recursive: true, force: true });
    await server.close();
  });

  it('uses its keys, and names the mistake without any', async () => {
    delete process.env.SSH_AUTH_SOCK;
    expect(await checked(options())).toMatch(/^destination_login: `agent: true`, and no SSH agent is there/);
    process.env.SSH_AUTH_SOCK = join(folder, 'agent');
    expect(await checked(options())).toMatch(/^destination_login: 127\.0\.0\.1:\d+ refuses the login/);
    const key = join(folder, 'key');
    await writeFile(key, server.key, { mode: 0o600 });
    await chmod(key, 0o600);
    execFileSync('ssh-add', ['-q', key], { env: process.env, stdio: 'ignore' });
    expect(await checked(options())).toContain(server.prints.ed25519);
  });
});

/** A server that takes the logins that a test says, as servers with PAM do. */
class LoginServer {
  readonly tried: string[] = [];
  readonly #server: Server;
  readonly #print: string;

  private constructor(server: Server, print: string) {
    this.#server = server;
    this.#print = print;
  }

  /** @param take accepts or rejects one method of a login */
  static async open(take: (login: AuthContext, tried: readonly string[]) => void): Promise<LoginServer> {
    const { private: host, public: shown } = ssh2.utils.generateKeyPairSync('ed25519');
    const bytes = Buffer.from(shown.split(' ')[1] ?? '', 'base64');
    const print = `SHA256:${createHash('sha256').update(bytes).digest('base64').replace(/=+$/, '')}`;
    const server = new ssh2.Server({ hostKeys: [host] }, (client) => {
      client.on('error', () => undefined);
      client.on('authentication', (login) => {
        opened.tried.push(login.method);
        take(login, opened.tried);
      });
      client.on('session', (accept) =>
        accept().on('sftp', (acceptSftp) => {
          const sftp = acceptSftp();
          const folder = { mode: 0o040755, uid: 0, gid: 0, size: 0, atime: 0, mtime: 0 };
          sftp.on('STAT', (id) => sftp.attrs(id, folder));
        }),
      );
    });
    const opened = new LoginServer(server, print);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return opened;
  }

  get options(): Record<string, unknown> {
    const { port } = this.#server.address() as AddressInfo;
    return { url: `sftp://cdp@127.0.0.1:${port}/in`, host_key: this.#print };
  }

  close(): void {
    this.#server.close();
  }
}

describe('the login with a password', () => {
  let server: LoginServer | undefined;
  afterEach(() => server?.close());
  const asks = (login: AuthContext, prompts: string[], right: (replies: readonly string[]) => boolean) => {
    if (login.method !== 'keyboard-interactive') return login.reject(['keyboard-interactive']);
    login.prompt(
      prompts.map((prompt) => ({ prompt, echo: false })),
      (replies) => (right(replies) ? login.accept() : login.reject(['keyboard-interactive'])),
    );
  };

  it('responds to a server that asks for it in a dialogue', async () => {
    server = await LoginServer.open((login) => asks(login, ['Password: '], ([reply]) => reply === 's3cret'));
    expect(await checked({ ...server.options, password: 's3cret' })).toContain('SHA256:');
    expect(server.tried).toContain('keyboard-interactive');
    const refused = await checked({ ...server.options, password: 'wr0ng' });
    expect(refused).toMatch(/^destination_login: /);
    expect(refused).not.toContain('wr0ng');
  });

  it('continues with a dialogue that asks for nothing', async () => {
    server = await LoginServer.open((login) => asks(login, [], () => true));
    expect(await checked({ ...server.options, password: 's3cret' })).toContain('SHA256:');
  });

  it('shows the key first if a server wants key and password', async () => {
    server = await LoginServer.open((login, tried) => {
      if (login.method === 'publickey')
        return login.signature === undefined ? login.accept() : login.reject(['password'], true);
      if (login.method !== 'password' || !tried.includes('publickey')) return login.reject(['publickey']);
      return login.password === 's3cret' ? login.accept() : login.reject(['password']);
    });
    const { privateKey } = generateKeyPairSync('ed25519', {
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
      publicKeyEncoding: { type: 'spki', format: 'pem' },
    });
    expect(await checked({ ...server.options, private_key: privateKey, password: 's3cret' })).toContain('SHA256:');
  });
});
