import { mkdir } from 'node:fs/promises';
import { type DestinationContext, fileConnector, orClose } from '../../src/sdk/index.js';
import { FolderStore } from './folder.js';
import { type ExportOptions, fileName, localTime, sampleNames } from './names.js';
import { checkExport, type ExportShape, exportOptions } from './options.js';
import { ExportPlace, type Store } from './place.js';
import { uses } from './template-names.js';
import { isDelimited, mapColumn } from './text.js';

async function openStore({ options, signal, notice }: DestinationContext<ExportShape>): Promise<Store> {
  const { url } = options;
  const mode = Number.parseInt(options.fileMode, 8);
  if (url?.startsWith('sftp:')) {
    const { SftpStore } = await import('./sftp.js');
    return SftpStore.open({ ...options, url, signal }, mode);
  }
  if (url !== undefined) {
    const { BucketStore } = await import('./bucket.js');
    return BucketStore.open({ ...options, url }, { signal, notice });
  }
  return new FolderStore(options.path ?? '.', mode);
}

function hasOp(options: ExportOptions): boolean {
  return uses(options.file, 'op');
}

/** A URL in one form: `sftp://u@host:22/in/` is the same place as `sftp://u@Host/in`. */
function address(url: string): string {
  // The check of the options refuses one that cannot be read.
  if (!URL.canParse(url)) return url;
  const { protocol, username, host, pathname } = new URL(url);
  return `${protocol}//${username}@${host.toLowerCase().replace(/:22$/, '')}${pathname.replaceAll(/\/+(?=\/|$)/g, '')}`;
}

export default fileConnector({
  name: 'export',
  summary:
    'Hands whole files over to a partner: in a folder, by SFTP, in a bucket of S3, in a container of Azure; packed and encrypted if you like.',
  erasure: 'files that the receiver has taken away are its own to erase; those that are still there are removed',
  options: exportOptions,
  optionRules: { check: checkExport },
  place: ({ path, url, endpoint, account }) => path ?? `${endpoint ?? account ?? ''} ${address(url ?? '')}`.trim(),

  policy: (options) => ({
    ...{
      content: options.content,
      when: options.when,
      empty: options.empty,
      select: options.select,
      keep: options.keep,
    },
    hasOp: hasOp(options),
    refusesRows: isDelimited(options) && options.csv.quote === 'none',
    day: (at) => localTime(at, options.timeZone).date,
    mapColumn: (column) => mapColumn(options, column),
  }),

  sampleNames(options, { job, stream }) {
    const properties = { job, stream, run_id: 'run', at: 0, sequence: 1, day_sequence: 1 };
    return sampleNames(options, properties, [
      { part: 1, op: 'inserted' },
      ...(options.split === undefined ? [] : [2, 10, 100].map((part) => ({ part, op: 'inserted' }) as const)),
      ...(hasOp(options) ? (['updated', 'deleted'] as const).map((op) => ({ part: 1, op })) : []),
    ]);
  },

  fileName,

  async checkFiles({ encrypt }) {
    if (encrypt !== undefined) await (await import('./pgp.js')).keyLines(encrypt);
  },

  async make(options, task) {
    const { FileMaker } = await import('./make.js');
    return new FileMaker(options, task).make();
  },

  async check(context) {
    const { encrypt } = context.options;
    const keys = encrypt && (await (await import('./pgp.js')).keyLines(encrypt));
    const store = await openStore(context);
    try {
      for (const warning of keys?.warnings ?? []) context.notice(warning);
      const { upload, done, url = '' } = context.options;
      if (upload === 'direct' && done === undefined && !/^(s3|az):/.test(url))
        context.notice('`upload: direct` without `done`: the receiver cannot see whether a file is whole');
      const { reached, ...rest } = await store.check();
      return { ...rest, reached: keys === undefined ? reached : `${reached}; ${keys.shown}` };
    } finally {
      await store.close();
    }
  },

  async open(context) {
    const store = await openStore(context);
    return orClose(store, async () => {
      await mkdir(context.folder, { recursive: true, mode: 0o700 });
      return new ExportPlace(store, context.options, context.folder, context.notice);
    });
  },
});
