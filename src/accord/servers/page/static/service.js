// Talks to the service that served this page: requests, streams that resume by themselves, and errors.

import { EventParser } from "./sse.js";

const FIRST_PAUSE_MS = 300;
const LAST_PAUSE_MS = 5_000;
const MAX_FAILURES = 12; // in a row, about 45 seconds; a packet in between starts the count again

/** An answer that is an error: a problem body (RFC 9457), or the error of a model API. */
export class ServiceError extends Error {
  constructor(status, body, headers) {
    const error = body?.error;
    const detail = body?.detail ?? error?.message ?? body?.title;
    super(detail || `The service answered with status ${status}`);
    this.status = status;
    this.body = body;
    this.code = body?.code ?? error?.code ?? error?.type ?? String(status);
    this.retryAfter = Number(headers?.get("retry-after")) || null;
  }
}

/** The service could not be reached. */
export class ConnectionError extends Error {}

/** A stream that ended for good: the packet says why. */
export class StreamFailedError extends Error {
  constructor(error) {
    super(error.message);
    this.code = error.code;
    this.details = error.details;
  }
}

export class Service {
  /** The token and its user, in memory only: a reload of the page asks again. */
  token = null;
  user = { id: "page", name: "Page" };

  /** Called when a token is needed; resolves when there is one. */
  authenticate = async () => {
    throw new Error("This service needs a token");
  };

  /** Send a request; returns the response, whatever its status. */
  async send(path, { method = "GET", body, headers = {}, signal } = {}) {
    for (;;) {
      const token = this.token;
      const all = { ...headers };
      if (body !== undefined) all["content-type"] = "application/json";
      if (token) all.authorization = `Bearer ${token}`;
      let response;
      try {
        response = await fetch(path, {
          method,
          headers: all,
          body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
          signal,
          cache: "no-store",
          credentials: "omit",
        });
      } catch (error) {
        if (signal?.aborted) throw error;
        throw new ConnectionError("The service cannot be reached");
      }
      if (response.status !== 401) return response;
      if (this.token === token) {
        const problem = await response.json().catch(() => null);
        await this.authenticate(token ? (problem?.detail ?? "This token is not accepted") : null);
      }
    }
  }

  /** Send a request; returns the JSON of its answer, or throws a `ServiceError`. */
  async json(path, options) {
    const response = await this.send(path, options);
    const body = await response.json().catch(() => null);
    if (!response.ok) throw new ServiceError(response.status, body, response.headers);
    return body;
  }

  /** The packets of a new turn, each as `{id, op, p}`; a cut connection is resumed after the last packet. */
  start(request, options) {
    return this.#packets(request.request_id, { ...options, request });
  }

  /** The packets of an earlier turn as a client with these capabilities gets them. */
  read(requestId, options) {
    return this.#packets(requestId, options);
  }

  async *#packets(requestId, { request, capabilities, signal, onState = () => {} }) {
    let after = 0;
    let failures = 0;
    let wasAccepted = false;
    for (;;) {
      try {
        const response = await this.#open(requestId, after === 0 ? request : undefined, capabilities, after, signal);
        wasAccepted = true;
        onState("open");
        for await (const packet of readPackets(response)) {
          if (packet.id !== null) {
            after = packet.id;
            failures = 0;
          }
          if (packet.id === null && packet.op === "error") {
            // This connection ends, the turn does not: a transient error is resumed.
            if (packet.p.severity !== "transient") throw new StreamFailedError(packet.p);
            break;
          }
          if (packet.id === null) break;
          yield packet;
          if (packet.op === "close") return;
        }
      } catch (error) {
        if (signal?.aborted) return;
        if (error instanceof StreamFailedError) throw error;
        if (error instanceof ServiceError && error.status < 500 && error.status !== 429) throw error;
        if (error instanceof ServiceError && error.body?.final) throw error;
        if (!wasAccepted && failures >= 1) throw error;
      }
      failures += 1;
      if (failures > MAX_FAILURES) throw new ConnectionError("The connection was lost and could not be resumed");
      onState("resuming");
      await pause(Math.min(LAST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failures - 1)), signal);
      if (signal?.aborted) return;
    }
  }

  async #open(requestId, request, capabilities, after, signal) {
    const headers = { accept: "text/event-stream" };
    if (after > 0) headers["last-event-id"] = String(after);
    if (capabilities !== undefined) {
      headers["accord-capabilities"] = typeof capabilities === "string" ? capabilities : JSON.stringify(capabilities);
    }
    const response = request
      ? await this.send("/v1/assist", { method: "POST", body: request, headers, signal })
      : await this.send(`/v1/requests/${requestId}`, { headers, signal });
    if (!response.ok) {
      throw new ServiceError(response.status, await response.json().catch(() => null), response.headers);
    }
    return response;
  }
}

async function* readPackets(response) {
  const parser = new EventParser();
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      for (const event of parser.feed(value)) {
        yield { ...JSON.parse(event.data), id: event.id === null ? null : Number(event.id) };
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Wait, but no longer than until the browser is online again or the signal is aborted. */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(end, ms);
    function end() {
      clearTimeout(timer);
      removeEventListener("online", end);
      signal?.removeEventListener("abort", end);
      resolve();
    }
    addEventListener("online", end);
    signal?.addEventListener("abort", end);
  });
}
