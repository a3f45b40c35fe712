// The turns of this page: each is sent once, keeps its packets, and can be followed by several views.

import { newId } from "./format.js";

/** One turn, as the client that sent it gets it: a web page, which declares nothing. */
export class Run {
  packets = [];
  /** "running", "resuming", "done", "stopped" or "failed" */
  state = "running";
  error = null;

  #service;
  #followers = new Set();
  #abort = new AbortController();

  constructor(service, request) {
    this.#service = service;
    this.request = request;
    this.id = request.request_id;
    this.finished = this.#read();
  }

  get query() {
    return this.request.payload.query;
  }

  get isOver() {
    return this.state !== "running" && this.state !== "resuming";
  }

  /**
   * Call `follower.packet` with each packet, also those that have come already, and `follower.changed` when the state
   * changes. Returns a function that ends this.
   */
  follow(follower) {
    this.packets.forEach((packet) => follower.packet?.(packet));
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }

  /** Cancel the turn at the service; its stream then ends with an error and a close. */
  async stop() {
    if (this.isOver) return;
    this.wasStopped = true;
    await this.#service.json(`/v1/requests/${this.id}`, { method: "DELETE" }).catch(() => {
      this.#abort.abort(); // it cannot be reached, or the turn has ended already
      this.#change("stopped");
    });
  }

  async #read() {
    try {
      const options = { signal: this.#abort.signal, onState: (state) => this.#connection(state) };
      for await (const packet of this.#service.start(this.request, options)) {
        if (packet.op === "error") this.error = packet.p;
        this.packets.push(packet);
        this.#followers.forEach((each) => each.packet?.(packet));
      }
      if (!this.isOver) this.#change(this.error === null ? "done" : this.wasStopped ? "stopped" : "failed");
    } catch (error) {
      this.error = error;
      this.#followers.forEach((each) => each.failed?.(error));
      this.#change("failed");
    }
  }

  #connection(state) {
    if (!this.isOver) this.#change(state === "open" ? "running" : "resuming");
  }

  #change(state) {
    if (this.state === state) return;
    this.state = state;
    this.#followers.forEach((each) => each.changed?.(state));
  }
}

/** The conversation of this page. */
export class Conversation {
  runs = [];

  #service;

  constructor(service) {
    this.#service = service;
    this.sessionId = `page-${newId()}`;
  }

  get latest() {
    return this.runs.at(-1) ?? null;
  }

  /** Send a prompt with these content blocks. */
  send(query, content) {
    const payload = { query };
    if (content.length) payload.content = content;
    const request = {
      request_id: newId(),
      context: { session_id: this.sessionId, user: this.#service.user },
      payload,
    };
    const run = new Run(this.#service, request);
    this.runs.push(run);
    return run;
  }
}
