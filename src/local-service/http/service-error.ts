/** An error answer (specification, sections 2.6 and 7). Any code may throw it; one place turns it into a body. */
export class ServiceError extends Error {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.name = 'ServiceError';
    this.status = status;
    this.headers = headers;
  }
}

export const badRequest = (message: string) => new ServiceError(400, message);
export const notFound = (message = 'the requested entity does not exist') => new ServiceError(404, message);
export const unauthorized = (message: string) => new ServiceError(401, message, { 'www-authenticate': 'Bearer' });
