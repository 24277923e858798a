import {
  CdsyncError,
  type Finding,
  recordConnector,
  TemplateRow,
  TextTemplate,
  unavailable,
} from '../../src/sdk/index.js';
import { compileForms, type HttpOptions } from './form.js';
import { httpOptions, httpRules } from './options.js';

/** The URL that a check asks: what stands before the first placeholder. */
function plainPart(url: string): string {
  return url.replace(/[^/?#]*(?:\{\{|\{%)[\s\S]*$/, '');
}

/** The headers without placeholders: some of them may be a login. */
function plainHeaders(headers: HttpOptions['headers'] = {}): Record<string, string> {
  const written = Object.entries(headers).map(([name, value]) => [
    name.toLowerCase(),
    new TextTemplate(value.reveal()),
  ]);
  const plain = (written as [string, TextTemplate][]).filter(([, { columns }]) => columns.length === 0);
  return Object.fromEntries(plain.map(([name, value]) => [name, value.render(new TemplateRow(new Map()))]));
}

export default recordConnector({
  name: 'http',
  summary: "Sends rows as requests to any API: in the receiver's own form, or as signed batches of cdsync's.",
  erasure:
    'it gets a delete with the key alone, unless its mode is upsert; records that it got before are its own to erase',
  options: httpOptions,
  optionRules: httpRules,
  capabilities: { batchRecords: 10_000, batchBytes: 16_000_000, batchesAtOnce: 64 },

  checkColumns: (options, stream) => {
    const found: Finding[] = Object.values(compileForms(options)).flatMap((form) =>
      form === 'skip' ? [] : form.columns(stream),
    );
    return [
      ...new Map(found.map((finding) => [JSON.stringify([finding.path, finding.placeholder]), finding])).values(),
    ];
  },

  async check({ options, folder, keptFolder = folder, signal, notice }) {
    const [{ Exchange, withQuery }, { Login }] = await Promise.all([import('./exchange.js'), import('./login.js')]);
    const exchange = await Exchange.open(options);
    try {
      // In the folder that deliveries use: a server that replaces the refresh token takes the old one no more.
      const credentials = await new Login(options.auth, exchange, keptFolder, notice).credentials(signal);
      const { test, auth } = options;
      const asked = test?.url ?? plainPart(options.url.reveal());
      const method = test === undefined ? 'OPTIONS' : (test.method.toUpperCase() as 'GET');
      const headers = { ...credentials.headers, ...plainHeaders(options.headers) };
      const { status } =
        test === undefined
          ? await exchange.send(asked, { method, headers: {} }, signal)
          : await exchange.send(withQuery(asked, credentials.query), { method, headers }, signal);
      const { host } = new URL(asked);
      const lacks =
        test === undefined || (status >= 200 && status < 300)
          ? []
          : [{ message: `${host} answered \`test\` with ${status}`, hint: 'check `auth` and `test.url`' }];
      const login = auth?.oauth2 === undefined ? '' : ' after a login';
      return {
        reached: `${host}, which responds to ${method} with ${status}${login}`,
        lacks,
        untried: 'whether it takes changes shows the first delivery',
      };
    } catch (error) {
      throw error instanceof CdsyncError ? error : unavailable((error as Error).message);
    } finally {
      await exchange.close();
    }
  },

  async open({ options, job, destination, folder, keptFolder = folder, notice }) {
    const [{ Exchange }, { Login }, { Rate }, { HttpDestination }] = await Promise.all([
      import('./exchange.js'),
      import('./login.js'),
      import('./rate.js'),
      import('./send.js'),
    ]);
    const exchange = await Exchange.open(options);
    exchange.expect(plainPart(options.url.reveal()));
    const limits = options.rate === undefined ? [] : Array.isArray(options.rate) ? options.rate : [options.rate];
    const rate = await Rate.open(limits, keptFolder);
    const login = new Login(options.auth, exchange, keptFolder, notice);
    return new HttpDestination(options, { exchange, login, rate, sender: { job, destination }, notice });
  },
});
