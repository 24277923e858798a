import { dirname } from 'node:path';
import type { JobConfig, LocalConfig } from '../config/config.js';
import { type Clock, callAfter } from '../core/clock.js';
import { errorType } from '../core/error-codes.js';
import { asCdsyncError, type CdsyncError } from '../core/errors.js';
import type { JobReport } from '../core/run-report.js';
import { metricsDocument, sendOtlp } from '../metrics/otlp.js';
import { afterRunSamples, type RunTrigger, type Sample, samplesOf } from '../metrics/samples.js';
import { keepSamples } from '../metrics/stored-samples.js';
import { writeTextFile } from '../metrics/text-file.js';
import { runAfter } from '../notify/after-commands.js';
import { type Anomaly, comparedRuns, detectAnomalies } from '../notify/anomalies.js';
import { reasonOf } from '../notify/channels.js';
import { Notifier } from '../notify/notifier.js';
import { mergedStatus, type RunResult, resultOfReport } from '../notify/result.js';
import { WebhookClient } from '../notify/webhook-client.js';
import type { JobLayout } from '../storage/layout.js';
import { pastRuns } from '../storage/reports.js';

/** How long all channels and collectors together may delay the end of a run. */
const deadlineMs = 10_000;

interface AfterRunContext {
  readonly config: LocalConfig;
  readonly job: JobConfig;
  readonly layout: JobLayout;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly notice: (line: string) => void;
  /** Options of the run. Anomalies are not reported for a run that is meant to differ from earlier ones. */
  readonly accept: boolean;
  readonly rekey: boolean;
  readonly range: unknown;
}

/**
 * Reports one run to people and programs, as `notify`, `metrics` and `after` of its job say. Call {@link started} when the run has
 * its lock, then {@link finished} or {@link failed} once. It never throws, and never changes the run.
 */
export class AfterRun {
  readonly #context: AfterRunContext;
  readonly #http = new WebhookClient();
  readonly #notifier: Notifier;
  readonly #startedAt: number;

  constructor(context: AfterRunContext) {
    const { job, layout, notice, clock } = context;
    this.#context = context;
    this.#startedAt = clock.now();
    const { destinations = [] } = context.config.jobSummaries.find(({ name }) => name === job.name) ?? {};
    const delivers = ({ name, stream }: { readonly name: string; readonly stream: string }) =>
      destinations.some((destination) => destination.name === name && destination.streams.includes(stream));
    const { name, notify } = job;
    const { file } = context.config;
    this.#notifier = new Notifier({ job: name, file, notify, layout, delivers, http: this.#http, notice, deadlineMs });
  }

  /** Notifies in the background that the run starts. */
  started(): void {
    this.#notifier.started(this.#startedAt);
  }

  /** Reports the result of the run. */
  async finished(report: JobReport): Promise<void> {
    const { layout, clock } = this.#context;
    const times = { startedAt: this.#startedAt, finishedAt: clock.now(), report: layout.report(report.run_id) };
    await this.#end(resultOfReport(report, times));
  }

  /**
   * Reports an approval, or a delivery without a run. Channels are notified only if the job's status changes. An approval publishes
   * rows, so the commands of `after` follow it.
   * @param report the result of the approval or delivery
   * @param last the report of the last run before it
   */
  async followed(trigger: Exclude<RunTrigger, 'run'>, report: JobReport, last: JobReport | undefined): Promise<void> {
    const { layout, clock } = this.#context;
    const times = { startedAt: this.#startedAt, finishedAt: clock.now(), report: layout.report(report.run_id) };
    const result: RunResult = { ...resultOfReport(report, times), status: mergedStatus(report, last) };
    await this.#end(result, trigger);
  }

  /** Reports an error that left no report. Usage errors and `locked` are not reported. */
  async failed(error: CdsyncError): Promise<void> {
    const { job, clock } = this.#context;
    if (error.kind === 'locked' || errorType(error.code).notify === false) return this.#http.close();
    const { code, message, hint, requestId } = error;
    const status = error.kind === 'interrupted' ? 'interrupted' : 'failed';
    await this.#end({
      job: job.name,
      runId: null,
      status,
      sequence: null,
      resumed: false,
      startedAt: this.#startedAt,
      finishedAt: clock.now(),
      streams: [],
      destinations: [],
      error: status === 'failed' ? { code, message, hint: hint ?? null, request_id: requestId ?? null } : null,
      report: null,
    });
  }

  async #end(result: RunResult, trigger: RunTrigger = 'run'): Promise<void> {
    const isRun = trigger === 'run';
    const anomalies = isRun ? await this.#anomalies(result) : [];
    const stop = new AbortController();
    const cancel = callAfter(deadlineMs, () => stop.abort());
    try {
      const samples = isRun ? samplesOf(result, anomalies) : afterRunSamples(result, trigger);
      const measured = this.#measure(result, samples, stop.signal);
      await Promise.all([measured, this.#notifier.ended(result, anomalies, { onlyNews: !isRun })]);
    } finally {
      cancel();
      await this.#http.close();
    }
    if (trigger !== 'delivery') await this.#runCommands(result);
  }

  async #anomalies(result: RunResult): Promise<Anomaly[]> {
    const { layout, accept, rekey, range } = this.#context;
    if (accept || rekey || range !== undefined) return [];
    try {
      const past = await pastRuns(layout, comparedRuns + 1);
      return detectAnomalies(
        result,
        past.map(({ report }) => report),
      );
    } catch (error) {
      // An edited report must not prevent the notifications.
      this.#warn('this run could not be compared with those before', error);
      return [];
    }
  }

  async #measure(result: RunResult, run: readonly Sample[], signal: AbortSignal): Promise<void> {
    const { config, job, layout } = this.#context;
    const { textfile, otlp } = job.metrics;
    if (textfile === undefined && otlp === undefined) return;
    const summary = config.jobSummaries.find(({ name }) => name === job.name) ?? { ...job, destinations: [] };
    const { kept, error } = await keepSamples(layout, { job: summary, textfile, run, now: result.startedAt });
    if (error !== undefined) this.#warn('the figures of this run could not be stored for the next', error);
    if (textfile !== undefined) {
      await writeTextFile(config, textfile, { job: job.name, kept }).catch((reason) =>
        this.#warn(`metrics: ${textfile} could not be written`, reason),
      );
    }
    if (otlp === undefined) return;
    const document = metricsDocument(kept, { now: result.finishedAt, resourceAttributes: otlp.resource });
    await sendOtlp(otlp, document, { http: this.#http, signal }).catch((reason) =>
      this.#warn('metrics were not sent', reason),
    );
  }

  async #runCommands(result: RunResult): Promise<void> {
    const { config, job, signal, notice } = this.#context;
    const { secretVariables } = config;
    await runAfter(job.after, result, {
      folder: dirname(config.file),
      env: process.env,
      secretVariables,
      signal,
      notice,
    });
  }

  #warn(what: string, error: unknown): void {
    this.#context.notice(`warning: ${what}: ${reasonOf(asCdsyncError(error))}`);
  }
}
