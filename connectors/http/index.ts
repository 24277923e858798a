import { CdsyncError, type Finding, recordConnector, unavailable } from '../../src/sdk/index.js';
import { compileForms } from './form.js';
import { httpOptions, httpRules } from './options.js';

/** The URL that a check asks: what stands before the first placeholder. */
function plainPart(url: string): string {
  return url.replace(/[^/?#]*(?:\{\{|\{%)[\s\S]*$/, '');
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

  async check({ options, folder, signal, notice }) {
    const [{ Exchange }, { Login }] = await Promise.all([import('./exchange.js'), import('./login.js')]);
    const exchange = await Exchange.open(options);
    try {
      const { headers } = await new Login(options.auth, exchange, folder, notice).credentials(signal);
      const { test, auth } = options;
      const asked = test?.url ?? plainPart(options.url.reveal());
      const method = test === undefined ? 'OPTIONS' : (test.method.toUpperCase() as 'GET');
      const { status } = await exchange.send(asked, { method, headers: test === undefined ? {} : headers }, signal);
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
