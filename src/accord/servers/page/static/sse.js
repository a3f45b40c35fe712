// Parses server-sent events from bytes. Pure: it knows nothing of connections.

/** Collects the events of a stream; `feed` returns those that are complete. */
export class EventParser {
  #decoder = new TextDecoder();
  #rest = "";
  #data = [];
  #id = null;

  /** Return the events in these bytes and what came before: `{id, data}`, with `id` null if it has none. */
  feed(bytes) {
    const text = this.#rest + this.#decoder.decode(bytes, { stream: true });
    // A carriage return at the very end may be the first half of a line end.
    const end = text.endsWith("\r") ? text.length - 1 : text.length;
    const lines = text.slice(0, end).split(/\r\n|\n|\r/);
    this.#rest = lines.pop() + text.slice(end);
    const events = [];
    for (const line of lines) {
      if (line === "") {
        if (this.#data.length > 0) events.push({ id: this.#id, data: this.#data.join("\n") });
        this.#data = [];
        this.#id = null;
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue; // a comment: a heartbeat or a warning
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "data") this.#data.push(value);
      else if (name === "id") this.#id = value;
    }
    return events;
  }
}
