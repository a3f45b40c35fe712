// Shows the packets of one turn in an element: text, events and errors, in the order in which they come.
//
// Packets are written 20 times a second, however many have come; nothing is rendered a second time.

import { button, element, jsonDetails } from "./dom.js";
import { MarkdownWriter, isInlineImage, makeLink } from "./markdown.js";

const DRAW_MS = 50; // at every frame, layout and painting of a long answer take three times as much of the main thread
const PER_DRAW = 1_200; // packets; a resumed stream may bring thousands at once

/** Writes plain text: one growing text node. */
class TextWriter {
  #node = new Text("");

  constructor(root) {
    root.append(this.#node);
    root.classList.add("plain");
  }

  write(text) {
    this.#node.appendData(text);
  }

  insert(inline) {
    this.#node.after(inline);
  }

  end() {}
}

export class AnswerView {
  /** The text of the answer, for speech and for copying. */
  text = "";
  events = [];
  isEnded = false;

  #queue = [];
  #timer = 0;
  #drawnAt = 0;
  #form;
  #writer = null;
  #flow = element("div", "flow");
  #progress = null;
  #thoughts = null;
  #sources = null;
  #actions;

  /**
   * `form` is "markdown" or "plain"; `actions.retry` is offered for errors that may pass.
   */
  constructor(form = "markdown", actions = {}) {
    this.#form = form;
    this.#actions = actions;
    this.element = element("div", "answer", this.#flow);
    this.element.setAttribute("aria-busy", "true");
  }

  /** Show a packet soon. */
  add(packet) {
    this.#queue.push(packet);
    this.#schedule();
  }

  /** Show all that has come, now. */
  flush() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    while (this.#queue.length) this.#write(PER_DRAW);
  }

  /** Show an error that is not part of the stream: a refusal, a lost connection. */
  fail(error) {
    this.flush();
    this.#showError({ code: error.code, message: error.message, details: error.body?.details ?? error.details });
    this.end();
  }

  end() {
    this.flush();
    this.#endText();
    this.isEnded = true;
    if (this.#progress) this.#progress.box.hidden = true; // also of an agent that forgot to complete it
    this.element.removeAttribute("aria-busy");
  }

  /** Point out an item of the agent, if this view shows it as such. */
  highlight(id) {
    for (const node of this.element.querySelectorAll("[data-item]")) {
      node.classList.toggle("highlighted", node.dataset.item === id);
    }
  }

  #schedule() {
    this.#timer ||= setTimeout(() => this.#draw(), Math.max(0, this.#drawnAt + DRAW_MS - performance.now()));
  }

  #draw() {
    this.#timer = 0;
    this.#drawnAt = performance.now();
    this.#write(PER_DRAW);
    if (this.#queue.length) this.#schedule();
  }

  #write(limit) {
    let text = "";
    for (const packet of this.#queue.splice(0, limit)) {
      if (packet.op === "delta") {
        text += packet.p;
        continue;
      }
      this.#writeText(text);
      text = "";
      if (packet.op === "event") this.#showEvent(packet.p);
      else if (packet.op === "error") this.#showError(packet.p);
    }
    this.#writeText(text);
  }

  #writeText(text) {
    if (!text) return;
    this.text += text;
    if (this.#writer === null) {
      const part = element("div", "text");
      this.#flow.append(part);
      this.#writer = this.#form === "markdown" ? new MarkdownWriter(part) : new TextWriter(part);
    }
    this.#writer.write(text);
  }

  #endText() {
    this.#writer?.end();
    this.#writer = null;
  }

  #showEvent(event) {
    this.events.push(event);
    const data = event.data ?? {};
    switch (event.type) {
      case "progress_indicator":
        this.#showProgress(event, data);
        break;
      case "thought_trace":
        this.#showThought(event, data);
        break;
      case "citation_block":
        this.#showCitations(event, data.items ?? []);
        break;
      case "media_carousel":
        this.#addBlock(event, element("div", "media", ...(data.items ?? []).map(mediaItem)));
        break;
      case "markdown_block": {
        const block = element("div", "markdown-block text");
        const writer = this.#form === "markdown" ? new MarkdownWriter(block) : new TextWriter(block);
        writer.write(data.content ?? "");
        writer.end();
        this.#addBlock(event, block);
        break;
      }
      case "user_error":
        this.#addBlock(event, this.#errorBox("user-error", data.message ?? "A sub-task failed", data));
        break;
      default:
        this.#addBlock(event, unknownItem(event));
    }
  }

  /** Put a block between the text before and after it. */
  #addBlock(event, block) {
    this.#endText();
    if (event.id) block.dataset.item = event.id;
    this.#flow.append(block);
  }

  #showProgress(event, { label = "", status, progress_percent: share }) {
    if (status === "failed") {
      this.#addBlock(event, element("div", "user-error", element("p", "", `Failed: ${label}`)));
    }
    if (this.#progress === null) {
      const bar = document.createElement("progress");
      this.#progress = { bar, label: element("span"), box: element("div", "progress-line") };
      this.#progress.box.append(bar, this.#progress.label);
      this.element.append(this.#progress.box);
    }
    const { bar, box } = this.#progress;
    this.#progress.label.textContent = label;
    bar.setAttribute("aria-label", label || "Progress");
    if (typeof share === "number") bar.value = share;
    else bar.removeAttribute("value");
    box.hidden = status !== "running";
    if (event.id) box.dataset.item = event.id;
  }

  #showThought(event, data) {
    if (this.#thoughts === null) {
      this.#thoughts = { list: element("ul"), title: element("summary") };
      const box = element("details", "thoughts", this.#thoughts.title, this.#thoughts.list);
      this.element.prepend(box);
    }
    const text = [data.thought, data.text, data.content].find((each) => typeof each === "string");
    const item = element("li", "", text ?? JSON.stringify(data));
    if (event.id) item.dataset.item = event.id;
    this.#thoughts.list.append(item);
    const count = this.#thoughts.list.children.length;
    this.#thoughts.title.textContent = count === 1 ? "1 thought" : `${count} thoughts`;
  }

  #showCitations(event, items) {
    if (this.#sources === null) {
      this.#sources = element("ol", "sources");
      this.element.append(element("section", "sources-box", element("h3", "", "Sources"), this.#sources));
    }
    const chips = element("span", "chips");
    if (event.id) chips.dataset.item = event.id;
    for (const item of items) {
      const source = element("li", "", makeLink(item.uri ?? "", item.title || item.uri || "Source"));
      if (item.snippet) source.append(element("p", "snippet", item.snippet));
      source.tabIndex = -1;
      this.#sources.append(source);
      const number = this.#sources.children.length;
      const chip = button("chip", String(number), () => {
        source.scrollIntoView({ block: "nearest" });
        source.focus();
      });
      chip.title = item.title || item.uri || "";
      chip.setAttribute("aria-label", `Source ${number}: ${chip.title}`);
      chips.append(chip);
    }
    if (this.#writer) this.#writer.insert(chips);
    else this.#flow.append(chips);
  }

  #showError({ code, message, details }) {
    this.#endText();
    // A turn that was stopped on purpose is not a failure.
    const kind = code === "cancelled" ? "user-error" : "stream-error";
    this.#flow.append(this.#errorBox(kind, message, { code, details, retryable: true }));
  }

  #errorBox(kind, message, { code, domain, retryable, details }) {
    const box = element("div", kind, element("p", "", message));
    const facts = [code, domain].filter((each) => each !== undefined && each !== null).join(", ");
    if (facts) box.append(element("p", "facts", facts));
    if (details) box.append(jsonDetails("Details", details));
    if (retryable && this.#actions.retry) box.append(button("small", "Try again", this.#actions.retry));
    box.setAttribute("role", "alert");
    return box;
  }
}

function mediaItem({ url = "", mime_type: type = "", alt_text: description }) {
  const figure = element("figure");
  if (isInlineImage(url)) {
    const image = document.createElement("img");
    image.src = url;
    image.alt = description ?? "";
    figure.append(image);
  } else if (/^data:(audio|video)\//i.test(url)) {
    const player = document.createElement(url.slice(5, 10) === "audio" ? "audio" : "video");
    player.controls = true;
    player.src = url;
    figure.append(player);
  } else {
    // Another host: a click opens it, the page loads nothing.
    figure.append(element("p", "not-loaded", makeLink(url, `${type || "media"} on ${hostOf(url)}`)));
  }
  if (description) figure.append(element("figcaption", "", description));
  return figure;
}

function hostOf(address) {
  try {
    return new URL(address).host;
  } catch {
    return "another host";
  }
}

function unknownItem(event) {
  const name = typeof event.type === "string" ? event.type : "Item";
  return element("div", "unknown-item", jsonDetails(name, event.data ?? event));
}
