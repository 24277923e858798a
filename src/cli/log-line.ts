/** The formats of standard error. */
export const logFormats = ['text', 'json'] as const;
export type LogFormat = (typeof logFormats)[number];
export type LogLevel = 'debug' | 'info' | 'warning' | 'error';

/** The variable that stands for --log-format. */
export const logFormatVariable = 'CDSYNC_LOG_FORMAT';

/** One entry of a log as one line of JSON; texts in it pass through `redact` before they are escaped. */
export function logLine(entry: Readonly<Record<string, unknown>>, redact: (text: string) => string): string {
  return JSON.stringify(entry, (_, value: unknown) => (typeof value === 'string' ? redact(value) : value));
}

/** Logs the warnings of the process (deprecated calls, say) as entries, so that every line of standard error is one. */
export function logStrayWarnings(log: (message: string) => void): void {
  process.removeAllListeners('warning');
  process.on('warning', (warning) => log(`${warning.name}: ${warning.message}`));
}
