// One run, side by side, as each client receives it: a web page, a terminal, a voice, and a client made of switches.

import { AnswerView } from "./answer.js";
import { button, element } from "./dom.js";
import { EVENT_NAMES, REASONS, RUNGS } from "./format.js";

const CLIENTS = [
  { name: "web", title: "Web page", note: "declares nothing: shows everything", form: "markdown", capabilities: "web" },
  { name: "cli", title: "Terminal", note: "markdown as text, progress bars", form: "plain", capabilities: "cli" },
  { name: "voice", title: "Voice", note: "speaks: no events, no markdown", form: "plain", capabilities: "voice" },
  { name: "custom", title: "Your client", note: "set the switches", form: "markdown", capabilities: null },
];
const REPORT_MS = 1_000; // how often the report of a run that goes on is read again

/** One column: a client, its stream, and how the items were adapted for it. */
class Column {
  #app;
  #client;
  #body = element("div", "side-body");
  #strip = element("ul", "strip");
  #totals = element("p", "totals");
  #abort = null;
  #answer = null;
  #run = null;
  #chosen;

  constructor(app, client, chosen) {
    this.#app = app;
    this.#client = client;
    this.#chosen = chosen;
    this.#strip.setAttribute("aria-label", `Items of the run as the client "${client.title}" gets them`);
    this.element = element(
      "section",
      `side side-${client.name}`,
      element("header", "", element("h3", "", client.title), element("p", "facts", client.note)),
      ...(client.controls ? [client.controls] : []),
      this.#totals,
      this.#strip,
      this.#body,
    );
    this.element.setAttribute("aria-label", client.title);
    this.#body.tabIndex = 0;
    if (client.name === "voice") this.#addSpeech();
  }

  get capabilities() {
    return this.#client.capabilities ?? this.#client.read();
  }

  /** Show this run; one that goes on is followed. */
  async show(run) {
    this.stop();
    this.#run = run;
    const abort = (this.#abort = new AbortController());
    const capabilities = this.capabilities;
    const form = this.#client.capabilities === null && !capabilities.prefers_markdown ? "plain" : this.#client.form;
    const answer = (this.#answer = new AnswerView(form));
    this.#body.replaceChildren(answer.element);
    this.#strip.replaceChildren();
    this.#totals.textContent = "…";
    const reports = setInterval(() => this.#showReport(run, abort), REPORT_MS);
    abort.signal.addEventListener("abort", () => clearInterval(reports));
    try {
      if (this.#client.name === "web") await this.#mirror(run, answer, abort);
      else {
        const options = { capabilities, signal: abort.signal };
        for await (const packet of this.#app.service.read(run.id, options)) answer.add(packet);
      }
    } catch (error) {
      if (!abort.signal.aborted) answer.fail(error);
    } finally {
      clearInterval(reports);
    }
    if (abort.signal.aborted) return;
    answer.end();
    await this.#showReport(run, abort);
  }

  stop() {
    this.#abort?.abort();
    if (this.#client.name === "voice") globalThis.speechSynthesis?.cancel();
  }

  highlight(id) {
    this.#answer?.highlight(id);
    for (const chip of this.#strip.querySelectorAll("button")) {
      chip.classList.toggle("highlighted", chip.dataset.id === id);
    }
  }

  /** The web page is the client that sent the request: its packets are here already. */
  #mirror(run, answer, abort) {
    return new Promise((resolve, reject) => {
      const end = run.follow({
        packet: (packet) => answer.add(packet),
        failed: reject,
        changed: () => run.isOver && resolve(),
      });
      abort.signal.addEventListener("abort", () => {
        end();
        resolve();
      });
      if (run.isOver) run.state === "failed" && run.packets.length === 0 ? reject(run.error) : resolve();
    });
  }

  async #showReport(run, abort) {
    const capabilities = this.capabilities;
    const named = typeof capabilities === "string" ? capabilities : JSON.stringify(capabilities);
    let report;
    try {
      const options = { headers: { "accord-capabilities": named }, signal: abort.signal };
      report = await this.#app.service.json(`/v1/requests/${run.id}/adaptation`, options);
    } catch {
      if (!abort.signal.aborted && run.isOver) this.#totals.textContent = "No report: the request was refused.";
      return;
    }
    if (abort.signal.aborted) return;
    const counted = RUNGS.filter((rung) => report.totals[rung]).map((rung) => `${report.totals[rung]} ${rung}`);
    this.#totals.textContent = counted.join(", ") || "Nothing yet";
    this.#strip.replaceChildren(...report.entries.filter((entry) => entry.type !== "close").map((entry) => this.#chip(entry)));
  }

  #chip(entry) {
    const name = EVENT_NAMES[entry.type] ?? entry.type;
    const parts = [`${name}: ${entry.rung}.`, REASONS[entry.reason] ?? entry.reason];
    if (entry.kept.length && entry.rung !== "native") parts.push(`Kept: ${entry.kept.join(", ")}.`);
    if (entry.lost.length) parts.push(`Lost: ${entry.lost.join(", ")}.`);
    const notes = Object.entries(entry.notes ?? {}).map(([kind, count]) => `${count} × ${kind.replaceAll("_", " ")}`);
    if (notes.length) parts.push(`Changed: ${notes.join(", ")}.`);
    const text = element("span", "tip", parts.join(" "));
    text.setAttribute("role", "tooltip");
    text.id = `tip-${this.#client.name}-${entry.position}-${entry.id}`;
    const title = entry.count > 1 ? `${name} × ${entry.count}` : name;
    const chip = button(`rung rung-${entry.rung}`, title, () => this.#chosen(entry.id));
    chip.dataset.id = entry.id;
    chip.setAttribute("aria-describedby", text.id);
    return element("li", "", chip, text);
  }

  #addSpeech() {
    const speech = globalThis.speechSynthesis;
    const play = button("small", "▶ Play", () => {
      if (speech.speaking) {
        speech.cancel();
        play.textContent = "▶ Play";
        return;
      }
      this.#answer?.flush();
      const text = this.#answer?.text.trim();
      if (!text) return;
      const spoken = new SpeechSynthesisUtterance(text);
      spoken.lang = document.documentElement.lang;
      spoken.onend = spoken.onerror = () => (play.textContent = "▶ Play");
      play.textContent = "■ Stop";
      speech.speak(spoken);
    });
    if (!speech) {
      play.disabled = true;
      play.title = "This browser has no speech";
    }
    this.element.querySelector("header").append(play);
  }
}

/** The switches of the client of one's own. */
class Switches {
  constructor(events, changed) {
    this.element = element("fieldset", "switches", element("legend", "", "What this client declares"));
    this.events = events.map((name) => [name, this.#switch(EVENT_NAMES[name] ?? name, name !== "thought_trace", changed)]);
    this.markdown = this.#switch("Prefers markdown", true, changed);
    this.profile = this.#choice("Plain text as", ["", "plain", "speech"], changed);
    this.resolution = this.#choice("Image resolution", ["", "low", "high", "auto"], changed);
  }

  read() {
    const declared = {
      supported_events: this.events.filter(([, input]) => input.checked).map(([name]) => name),
      prefers_markdown: this.markdown.checked,
    };
    if (this.profile.value) declared.text_profile = this.profile.value;
    if (this.resolution.value) declared.image_resolution = this.resolution.value;
    return declared;
  }

  #switch(title, isOn, changed) {
    const input = document.createElement("input");
    input.type = "checkbox";
    input.setAttribute("role", "switch");
    input.checked = isOn;
    input.addEventListener("change", changed);
    this.element.append(element("label", "switch", input, title));
    return input;
  }

  #choice(title, values, changed) {
    const select = document.createElement("select");
    select.append(...values.map((value) => new Option(value || "not declared", value)));
    select.addEventListener("change", changed);
    this.element.append(element("label", "choice", `${title} `, select));
    return select;
  }
}

export class SidesView {
  #app;
  #columns = [];
  #run = null;
  #isVisible = false;
  #box = document.getElementById("columns");
  #title = document.getElementById("sides-run");

  constructor(app) {
    this.#app = app;
  }

  /** Make the columns for a service that knows these events. */
  describe(events) {
    this.#columns.forEach((each) => each.stop());
    const chosen = (id) => this.#columns.forEach((each) => each.highlight(id));
    this.#columns = CLIENTS.map((client) => {
      if (client.capabilities !== null) return new Column(this.#app, client, chosen);
      const switches = new Switches(events, () => this.#run && column.show(this.#run));
      const column = new Column(this.#app, { ...client, controls: switches.element, read: () => switches.read() }, chosen);
      return column;
    });
    this.#box.replaceChildren(...this.#columns.map((each) => each.element));
  }

  /** Show this run when the view is visible. */
  select(run) {
    if (run === this.#run) return;
    this.#run = run;
    if (this.#isVisible) this.#showRun();
  }

  visible(isVisible) {
    if (isVisible === this.#isVisible) return;
    this.#isVisible = isVisible;
    // Streams are open only while they are looked at: a browser has few connections for one service.
    if (isVisible) this.#showRun();
    else this.#columns.forEach((each) => each.stop());
  }

  #showRun() {
    const run = this.#run;
    this.#title.textContent = run ? `“${run.query}”` : "Send a message in the chat first.";
    this.#box.hidden = run === null;
    if (run) this.#columns.forEach((each) => each.show(run));
  }
}
