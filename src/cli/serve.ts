import type { CommandModule } from 'yargs';
export const serveCommand: CommandModule = { command: 'serve', describe: 'x', handler: () => {} };
