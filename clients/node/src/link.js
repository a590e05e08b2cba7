/* Requests to a server: JSON both ways, connections that are kept, problems as errors. */
import http from 'node:http';
import https from 'node:https';
import { readFileSync } from 'node:fs';

const DEFAULT_URL = 'http://127.0.0.1:7295';
const DEFAULT_PORT = 7295;

/** Whatever goes wrong between this program and a server. */
export class PawlError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server could not be reached, or its answer was lost: what was asked may have happened all the same. */
export class Unavailable extends PawlError {}

/** The server refused: `status` is HTTP's, `type` a word for programs, `detail` says what to do. */
export class Problem extends PawlError {
  constructor(status, type, detail) {
    super(`${detail} (${status} ${type})`);
    this.status = status;
    this.type = type;
    this.detail = detail;
  }

  get retryable() {
    return [429, 503, 504].includes(this.status);
  }
}

function parse(url) {
  if (url.startsWith('unix:/')) return { module: http, socketPath: url.slice(5), prefix: '', headers: { Host: 'localhost' } };
  let at;
  try {
    at = new URL(url);
  } catch {
    at = { protocol: '' };
  }
  if (at.protocol !== 'http:' && at.protocol !== 'https:') {
    throw new TypeError(`"${url}" is no server: use http://HOST:PORT, https://HOST:PORT or unix:/PATH`);
  }
  const host = at.hostname.replace(/^\[|\]$/g, '');
  return { module: at.protocol === 'https:' ? https : http, host, port: Number(at.port) || DEFAULT_PORT, prefix: at.pathname.replace(/\/$/, ''), headers: {} };
}

function tokenOf({ token, tokenFile }) {
  if (token) return token;
  if (tokenFile) return readFileSync(tokenFile, 'utf8').split('\n')[0].trim();
  return process.env.PAWL_TOKEN || undefined;
}

function read(status, text) {
  let value;
  try {
    value = text ? JSON.parse(text) : {};
  } catch {
    value = undefined;
  }
  if (status < 300 && value !== undefined) return value;
  const type = String(value?.type ?? 'about:blank').split(':').pop();
  throw new Problem(status, type, String(value?.detail ?? "the server's answer could not be read"));
}

/** A server, and the connections to it. */
export class Link {
  #at;
  #agent;
  #headers;

  constructor(options = {}) {
    this.#at = parse(options.url ?? process.env.PAWL_SERVER ?? DEFAULT_URL);
    this.#agent = new this.#at.module.Agent({ keepAlive: true, maxSockets: options.maxSockets ?? 64, ...options.tls });
    const token = tokenOf(options);
    this.#headers = { 'User-Agent': 'pawl-node/0.1.0', ...this.#at.headers, ...(token && { Authorization: `Bearer ${token}` }) };
  }

  /** Asks once. */
  call(method, path, body, { timeout = 30_000, signal } = {}) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers = { ...this.#headers };
    if (text !== undefined) Object.assign(headers, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) });
    const { module, host, port, socketPath, prefix } = this.#at;
    return new Promise((resolve, reject) => {
      const lost = (error) => reject(new Unavailable(`the server could not be asked: ${error.message}`, { cause: error }));
      const request = module.request({ agent: this.#agent, method, host, port, socketPath, path: prefix + path, headers, signal }, (answer) => {
        const chunks = [];
        answer.on('data', (chunk) => chunks.push(chunk));
        answer.on('error', lost);
        answer.on('aborted', () => lost(new Error('the connection was lost')));
        answer.on('end', () => {
          clearTimeout(timer);
          try {
            resolve(read(answer.statusCode, Buffer.concat(chunks).toString('utf8')));
          } catch (error) {
            reject(error);
          }
        });
      });
      const timer = setTimeout(() => request.destroy(new Error('no answer in time')), timeout);
      request.on('close', () => clearTimeout(timer));
      request.on('error', lost);
      request.end(text);
    });
  }

  close() {
    this.#agent.destroy();
  }
}
