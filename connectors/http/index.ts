import {
  CdsyncError,
  type DestinationContext,
  type OptionProblem,
  recordConnector,
  TemplateRow,
  TextTemplate,
  unavailable,
} from '../../src/sdk/index.js';
import { compileForms, type HttpOptions, usedColumns } from './form.js';
import { type HttpShape, httpOptions, httpRules } from './options.js';

/** The URL that a check asks: the part before the first placeholder. */
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
    const problems: OptionProblem[] = Object.values(compileForms(options)).flatMap((form) =>
      form === 'skip' ? [] : form.columns(stream),
    );
    return [
      ...new Map(problems.map((finding) => [JSON.stringify([finding.path, finding.placeholder]), finding])).values(),
    ];
  },

  usedColumns,

  async check({ options, folder, keptFolder = folder, signal, notice }) {
    const [{ Exchange, withQuery }, { Login }, { isPage }] = await Promise.all([
      import('./exchange.js'),
      import('./login.js'),
      import('./results.js'),
    ]);
    const exchange = await Exchange.open(options);
    try {
      // In the folder that deliveries use: a server that replaces the refresh token takes the old one no more.
      const credentials = await new Login(options.auth, exchange, keptFolder, notice).credentials(signal);
      const { test, auth } = options;
      const asked = test?.url ?? plainPart(options.url.reveal());
      const method = test === undefined ? 'OPTIONS' : (test.method.toUpperCase() as 'GET');
      const headers = { ...credentials.headers, ...plainHeaders(options.headers) };
      const response =
        test === undefined
          ? await exchange.send(asked, { method, headers: {} }, signal)
          : await exchange.send(withQuery(asked, credentials.query), { method, headers }, signal);
      const { host } = new URL(asked);
      const { status } = response;
      const page = isPage(response) ? ' and a page for people, such as that of a login' : '';
      const isPassed = test === undefined || (status >= 200 && status < 300 && page === '');
      const lacks = isPassed
        ? []
        : [{ message: `${host} answered \`test\` with ${status}${page}`, hint: 'check `auth` and `test.url`' }];
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

  open: async (context) => (await opened(context)).destination,

  async planRequests(context, rows, records) {
    const [{ destination, exchange }, { minMs }, { withQuery }] = await Promise.all([
      opened(context),
      import('./rate.js'),
      import('./exchange.js'),
    ]);
    const { options } = context;
    const kinds = Object.entries(compileForms(options)).flatMap(([name, form]) => {
      const op = name as keyof typeof rows;
      if (form === 'skip' || rows[op] === 0) return [];
      return [{ op, method: form.method, requests: Math.ceil(rows[op] / form.batch.records), records: rows[op] }];
    });
    const sum = (member: 'requests' | 'records') => kinds.reduce((total, kind) => total + kind[member], 0);
    const { headers, query } = shownLogin(options.auth);
    const first = destination.requestsOf(records).slice(0, 3);
    await exchange.close();
    return {
      kinds: kinds.map(({ records: _, ...kind }) => kind),
      seconds: minMs(limitsOf(options), sum('requests'), sum('records')) / 1000,
      first: first.map((request) => ({
        ...request,
        url: withQuery(request.url, query),
        headers: { ...request.headers, ...headers },
      })),
    };
  },
});

function limitsOf({ rate }: HttpOptions) {
  return rate === undefined ? [] : Array.isArray(rate) ? rate : [rate];
}

async function opened(context: DestinationContext<HttpShape>) {
  const { options, job, destination: name, folder, keptFolder = folder, notice } = context;
  const [{ Exchange }, { Login }, { Rate }, { HttpDestination }, { IdempotencyKeys }] = await Promise.all([
    import('./exchange.js'),
    import('./login.js'),
    import('./rate.js'),
    import('./send.js'),
    import('./idempotency.js'),
  ]);
  const exchange = await Exchange.open(options);
  exchange.expect(plainPart(options.url.reveal()));
  const rate = await Rate.open(limitsOf(options), keptFolder);
  const login = new Login(options.auth, exchange, keptFolder, notice);
  const sender = { job, destination: name };
  const keys = await IdempotencyKeys.open(keptFolder);
  return { exchange, destination: new HttpDestination(options, { exchange, login, rate, sender, keys, notice }) };
}

/** The places of a login in a request, without it. */
function shownLogin(auth: HttpOptions['auth']): { headers: Record<string, string>; query: [string, string][] } {
  const name = auth?.header?.name.toLowerCase() ?? (auth === undefined || auth.query ? undefined : 'authorization');
  return {
    headers: name === undefined ? {} : { [name]: '***' },
    query: auth?.query === undefined ? [] : [[auth.query.name, '***']],
  };
}
