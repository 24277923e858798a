import { afterEach, describe, expect, it } from 'vitest';
import { Secret } from '../../../src/core/secret.js';
import { sendMail, transportOptions } from '../../../src/notify/mail.js';
import { endMessage, type Message } from '../../../src/notify/message.js';
import { runEnd } from '../../fixtures/run-ends.js';
import { openssl, selfSigned } from '../../fixtures/self-signed.js';
import { type SmtpOptions, SmtpServer } from '../../fixtures/smtp.js';

let server: SmtpServer;
afterEach(() => server.close());

const message: Message = {
  ...endMessage(runEnd({ status: 'failed' }), { previous: 'ok', found: [] }),
  events: ['failed'],
  late: false,
};

async function sent(options: SmtpOptions, login = '', host = '127.0.0.1'): Promise<void> {
  server = await SmtpServer.open(options);
  const smtp = new Secret(`smtp://${login}${host}:${server.port}`);
  await sendMail(
    message,
    { to: ['ops@example.com', 'data@example.com'], smtp, from: 'cdsync@example.com' },
    AbortSignal.timeout(20_000),
  );
}

describe('a mail', () => {
  it('goes to every address, and says what happened', async () => {
    await sent({});
    const [mail] = server.mails;
    expect(mail).toMatchObject({ from: 'cdsync@example.com', to: ['ops@example.com', 'data@example.com'] });
    expect(mail?.text).toContain('Subject: cdsync nightly: failed\n');
    expect(mail?.text).toContain('Auto-Submitted: auto-generated\n');
    expect(mail?.text).toContain('members: 1,000 rows; 3 inserted, 20 updated, 1 deleted; 12 s');
  });

  it('is sent with a login', async () => {
    await sent({ login: 'user:p@ss' }, 'user:p%40ss@');
    expect(server.mails[0]?.login).toBe('user:p@ss');
  });

  it('that is refused is reported without login and addresses', async () => {
    const failure = await sent({ login: 'user:right' }, 'user:wrong-one@').catch((error) => error);
    expect(failure).toMatchObject({ code: 'receiver_failed', hint: 'the server refuses the login of `smtp`' });
    expect(failure.message).toBe(`the mail server 127.0.0.1:${server.port} did not take the message (EAUTH 535)`);
    await server.close();
    const refused = await sent({ recipient: '550 who is ops@example.com?' }).catch((error) => error);
    expect(refused.message).toMatch(/did not take the message \(EENVELOPE 550\)$/);
  });

  it.skipIf(!openssl)('goes to no one whose certificate is not trusted', async () => {
    server = await SmtpServer.open({ tls: selfSigned() });
    const smtp = new Secret(`smtps://localhost:${server.port}`);
    const email = { to: ['ops@example.com'], smtp, from: undefined };
    await expect(sendMail(message, email, AbortSignal.timeout(20_000))).rejects.toMatchObject({
      code: 'receiver_failed',
    });
    expect(server.mails).toEqual([]);
  });

  it('takes a login to another machine only in an encrypted connection', async () => {
    server = await SmtpServer.open();
    expect(transportOptions('smtp://u:p@mail.example.com', 1)).toMatchObject({
      port: 587,
      secure: false,
      requireTLS: true,
      ignoreTLS: false,
    });
    expect(transportOptions('smtps://u:p@mail.example.com', 1)).toMatchObject({ port: 465, secure: true });
    expect(transportOptions('smtp://u:100%@mail.example.com', 1)).toMatchObject({ auth: { user: 'u', pass: '100%' } });
    expect(transportOptions('smtp://127.0.0.1:2525', 1)).toMatchObject({ port: 2525, ignoreTLS: true });
  });
});
