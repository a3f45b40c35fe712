// The model APIs: the same request in the form of OpenAI, Anthropic and CAP, and what becomes of each field.

import { html, nothing, render } from "./vendor/lit-html.js";
import { newId } from "./format.js";
import { copy } from "./happened.js";

const SCHEMA = {
  type: "object",
  properties: { city: { type: "string" }, people: { type: "integer" } },
  required: ["city", "people"],
  additionalProperties: false,
};
const SETTINGS = [
  ["temperature", "temperature 0.2"],
  ["seed", "seed 7"],
  ["schema", "JSON that matches a schema"],
  ["strict", "strict: drop nothing"],
];

/** The three forms of one request: title, path, table of fields, body and headers. */
export function forms({ model, prompt, on }, session) {
  const chat = { model, messages: [{ role: "user", content: prompt }] };
  const messages = { model, max_tokens: 1024, messages: [{ role: "user", content: prompt }] };
  const cap = {
    request_id: newId(),
    context: { session_id: session.id, user: session.user },
    payload: { query: prompt },
  };
  if (on.temperature) chat.temperature = messages.temperature = 0.2;
  if (on.seed) chat.seed = 7;
  if (on.schema) {
    chat.response_format = { type: "json_schema", json_schema: { name: "city", schema: SCHEMA } };
    messages.output_config = { format: { type: "json_schema", schema: SCHEMA } };
    cap.payload.requirements = { required: [{ capability: "structured_output_json_schema", min_support: "emulated" }] };
  }
  const headers = on.strict ? { "accord-policy": "strict" } : {};
  return [
    { title: "OpenAI", path: "/v1/chat/completions", api: "chat", body: chat, headers },
    { title: "Anthropic", path: "/v1/messages", api: "messages", body: messages, headers },
    { title: "CAP", path: "/v1/assist", api: null, body: cap, headers: {} },
  ];
}

export class PlaygroundView {
  #app;
  #box = document.getElementById("playground-body");
  #capabilities = null;
  #models = [];
  #answers = new Map();
  #values = { model: "auto", prompt: "Name a city and how many people live there.", on: { temperature: true, seed: true } };

  constructor(app) {
    this.#app = app;
  }

  describe(capabilities) {
    this.#capabilities = capabilities;
  }

  async visible(isVisible) {
    if (!isVisible || this.#capabilities === null) return;
    if (!this.#capabilities.model_apis) {
      render(html`<p>This service has no model APIs.</p>`, this.#box);
      return;
    }
    this.#draw();
    const listed = await this.#app.service.json("/v1/models").catch(() => ({ data: [] }));
    this.#models = listed.data.map((each) => each.id);
    this.#draw();
  }

  #change(change) {
    Object.assign(this.#values, change);
    this.#answers.clear();
    this.#draw();
  }

  async #send(form) {
    this.#answers.set(form.path, { state: "Sending…" });
    this.#draw();
    try {
      const options = { method: "POST", body: form.body, headers: form.headers };
      const response = await this.#app.service.send(form.path, options);
      const body = await response.json().catch(() => null);
      this.#answers.set(form.path, {
        status: response.status,
        servedBy: response.headers.get("accord-served-by"),
        dispositions: response.headers.get("accord-dispositions"),
        body,
      });
    } catch (error) {
      this.#answers.set(form.path, { state: error.message });
    }
    this.#draw();
  }

  #draw() {
    const { model, prompt, on } = this.#values;
    const session = { id: this.#app.conversation.sessionId, user: this.#app.service.user };
    const models = [...new Set(["auto", ...this.#models, model])];
    render(
      html`<form class="playground-form" @submit=${(event) => event.preventDefault()}>
          <label>Model <select @change=${(event) => this.#change({ model: event.target.value })}>
            ${models.map((each) => html`<option value=${each} ?selected=${each === model}>${each}</option>`)}</select></label>
          <label class="wide">Prompt <textarea rows="2" .value=${prompt} @input=${(event) => this.#change({ prompt: event.target.value })}></textarea></label>
          <fieldset><legend>Settings</legend>${SETTINGS.map(
            ([name, title]) => html`<label><input type="checkbox" ?checked=${on[name]}
              @change=${(event) => this.#change({ on: { ...on, [name]: event.target.checked } })} /> ${title}</label>`,
          )}</fieldset>
        </form>
        <div class="forms">${forms(this.#values, session).map((form) => this.#form(form))}</div>`,
      this.#box,
    );
  }

  #form(form) {
    const answer = this.#answers.get(form.path);
    const text = JSON.stringify(form.body, null, 2);
    return html`<section class="form" aria-label=${form.title}>
      <h3>${form.title}</h3><p class="facts">POST ${form.path}</p>
      <pre tabindex="0">${text}</pre>
      <p class="actions"><button type="button" @click=${() => this.#send(form)}>Send</button>
        <button type="button" class="small" @click=${(event) => copy(event.target, text)}>Copy</button></p>
      ${form.api ? this.#fields(form) : html`<p class="facts">A CAP request has no fields of a model API: its requirements are negotiated.</p>`}
      ${answer ? answerBox(answer) : nothing}
    </section>`;
  }

  /** What becomes of the fields of this request at each backend. */
  #fields(form) {
    const { backends } = this.#capabilities.model_apis;
    const used = Object.keys(form.body).flatMap((name) => (name === "response_format" ? [name, "response_format.json_schema"] : [name]));
    const rows = Object.entries(backends).flatMap(([backend, { fields }]) =>
      used.filter((name) => fields[form.api]?.[name]).map((name) => ({ backend, name, ...fields[form.api][name] })),
    );
    return html`<details open><summary>What becomes of its fields</summary>
      <div class="scroll" tabindex="0" role="region" aria-label=${`Fields of ${form.title}`}><table>
      <thead><tr><th scope="col">backend</th><th scope="col">field</th><th scope="col">becomes</th></tr></thead>
      <tbody>${rows.map(
        (row) => html`<tr><td>${row.backend}</td><td><code>${row.name}</code></td>
          <td class=${`disposition-${row.disposition}`} title=${row.reason ?? ""}>${row.disposition}${row.reason ? html`<br /><span class="facts">${row.reason}</span>` : nothing}</td></tr>`,
      )}</tbody></table></div></details>`;
  }
}

function answerBox(answer) {
  if (answer.state) return html`<p role="status">${answer.state}</p>`;
  return html`<div class=${answer.status < 300 ? "answer-box" : "answer-box stream-error"} role="status">
    <p><strong>${answer.status}</strong>${answer.servedBy ? html`, served by <strong>${answer.servedBy}</strong>` : nothing}</p>
    ${answer.dispositions ? html`<p>Label: <code>${answer.dispositions}</code></p>` : nothing}
    <pre tabindex="0">${JSON.stringify(answer.body, null, 2)}</pre></div>`;
}
