/** Pawl: durable background tasks, from Node.js. See docs/node.md. */
export { Client } from './client.js';
export { PawlError, Problem, Unavailable } from './link.js';
export { Fail, Retry, Snooze, Spawn } from './run.js';
export { Worker } from './worker.js';
