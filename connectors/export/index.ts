import { mkdir } from 'node:fs/promises';
import { type DestinationContext, fileConnector, orClose } from '../../src/sdk/index.js';
import { FolderStore } from './folder.js';
import { type ExportOptions, fileName, localTime, sampleNames } from './names.js';
import { checkExport, type ExportShape, exportOptions } from './options.js';
import { ExportPlace, type Store } from './place.js';
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
  return /\{\{[^}]*\bop\b/.test(options.file);
}

export default fileConnector({
  name: 'export',
  summary:
    'Hands whole files over to a partner: in a folder, by SFTP, in a bucket of S3, in a container of Azure; packed and encrypted if you like.',
  erasure: 'files that the receiver has taken away are its own to erase; those that are still there are removed',
  options: exportOptions,
  optionRules: { check: checkExport },
  place: ({ path, url, endpoint, account }) => path ?? `${endpoint ?? account ?? ''} ${url}`.trim(),

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
      ...(options.split === undefined ? [] : [{ part: 2, op: 'inserted' } as const]),
      ...(hasOp(options) ? [{ part: 1, op: 'deleted' } as const] : []),
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
      return new ExportPlace(store, context.options, context.folder);
    });
  },
});
