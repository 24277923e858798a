/** A connection that begins and ends transactions by statements. */
export abstract class TransactionalSession {
  #isInTransaction = false;

  abstract run(sql: string): Promise<number>;

  async begin(): Promise<void> {
    await this.run('START TRANSACTION');
    this.#isInTransaction = true;
  }

  async commit(): Promise<void> {
    await this.run('COMMIT');
    this.#isInTransaction = false;
  }

  async rollback(): Promise<void> {
    this.#isInTransaction = false;
    await this.run('ROLLBACK');
  }

  /** Works in the open transaction, or in a new one: savepoints need one. */
  protected async inTransaction<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isInTransaction) return work();
    await this.begin();
    try {
      const result = await work();
      await this.commit();
      return result;
    } catch (error) {
      await this.rollback().catch(() => undefined);
      throw error;
    }
  }
}
