/** How standard error is written. */
export const logFormats = ['text', 'json'] as const;
export type LogFormat = (typeof logFormats)[number];
export type LogLevel = 'debug' | 'info' | 'warning' | 'error';

/** The variable that stands for --log-format. */
export const logFormatVariable = 'CDSYNC_LOG_FORMAT';

/** One entry of a log as one line of JSON; texts in it pass through `redact` before they are escaped. */
export function logLine(entry: Readonly<Record<string, unknown>>, redact: (text: string) => string): string {
  return JSON.stringify(entry, (_, value: unknown) => (typeof value === 'string' ? redact(value) : value));
}

/** What is wrong with a process that nothing has caught: logged as an entry of its own, so that no line is anything else. */
export function logStrayWarnings(log: (message: string) => void): void {
  process.removeAllListeners('warning');
  process.on('warning', (warning) => log(`${warning.name}: ${warning.message}`));
}
