import type { DestinationReport } from '../../../src/core/run-report.js';
import type { Flags } from './product.js';
import type { Series } from './series.js';
import { type Strike, struck } from './strikes.js';

/** A delivery in its own process, which kills itself. */
async function pushKilled({ target, dice, product, note }: Series): Promise<void> {
  const most = target.killedAt === 'message' ? 40 : 110;
  const at = `${target.killedAt}:${1 + dice.whole(most)}:${dice.pick(['before', 'after'])}`;
  note(`${(await product.pushKilled(at)) ? 'killed' : 'not killed'}: ${at}`);
}

/** Whether a delivery was refused by a choice that the user then takes back. */
async function isTakenBack(series: Series, { status, error }: DestinationReport): Promise<boolean> {
  const { options } = series;
  if (error?.code === 'type_changed' && options.onTypeChange === 'fail') options.onTypeChange = 'variant_column';
  else if (error?.code === 'values_refused' && status === 'failed') options.onReject = 'continue';
  else return false;
  series.note(`refused as asked: ${error.code}`);
  await series.configure();
  return true;
}

/** The delivery, after the next one has removed its stage. */
async function paidLater({ product, trail }: Series, report: DestinationReport): Promise<DestinationReport> {
  const { status, action, error } = await product.push({});
  trail.push(`${status} ${action} ${error?.code ?? ''}`);
  if (status !== 'ok' || action !== 'nothing') throw new Error('the next delivery did more than remove a stage');
  return { ...report, status: 'ok', error: null };
}

/** Deliveries that are struck, until one ends. */
export async function pushThrough(series: Series, flags: Flags): Promise<DestinationReport> {
  const { dice, product, note, trail } = series;
  for (let attempt = 0; ; attempt += 1) {
    const choice = attempt < 3 ? dice.whole(14) : 11;
    if (choice === 0 && Object.keys(flags).length === 0 && series.target.killedAt !== undefined) {
      await pushKilled(series);
      continue;
    }
    const isAtChange = choice > 11;
    const how = choice < 4 || isAtChange ? 'death' : choice < 6 ? 'outage' : 'aside';
    const step = 1 + dice.whole(22);
    const strike: Strike = { how, step: isAtChange ? 'change' : step, after: isAtChange || dice.once(2) };
    let report: DestinationReport | undefined;
    const what = await struck(strike, async () => {
      report = await product.push(flags);
    });
    if (report === undefined) throw new Error('no report');
    if (what !== '') note(what);
    const { status, action, why, error } = report;
    trail.push(`${status} ${action} ${why} ${error?.code ?? ''}`);
    if (what.startsWith('death') && status === 'failed') continue;
    if (await isTakenBack(series, report)) continue;
    // The rows are there, but so is their stage.
    if (/^(death|outage)/.test(what) && error?.code === 'removal_owed') return paidLater(series, report);
    return report;
  }
}
