// The backends: what each supports, from which source, and which of them could do the work that is picked.

import { html, nothing, render } from "./vendor/lit-html.js";
import { supportLevel } from "./format.js";

const MARKS = { native: "●", emulated: "◐", restricted: "◑", unsupported: "○", unknown: "·" };

export class BackendsView {
  #app;
  #matrix = document.getElementById("matrix");
  #picker = document.getElementById("picker");
  #verdict = document.getElementById("verdict");
  #picked = new Map();
  #names = [];
  #number = 0;

  constructor(app) {
    this.#app = app;
  }

  /** Draw the matrix of these capabilities of the service. */
  describe(capabilities) {
    this.#names = [
      ...new Set([
        ...capabilities.backends.flatMap((backend) => Object.keys(backend.manifest)),
        ...Object.keys(capabilities.emulations),
      ]),
    ].sort();
    render(matrix(capabilities, this.#names), this.#matrix);
    this.#drawPicker();
    this.#decide();
  }

  #drawPicker() {
    render(
      html`<fieldset class="picker"><legend>The work needs …</legend>
        ${this.#names.map(
          (name) => html`<label>
            <select data-capability=${name} @change=${(event) => this.#pick(name, event.target.value)}>
              <option value="">–</option><option value="emulated">emulated</option><option value="native">native</option>
            </select> ${name}</label>`,
        )}
      </fieldset>`,
      this.#picker,
    );
  }

  #pick(name, level) {
    if (level) this.#picked.set(name, level);
    else this.#picked.delete(name);
    this.#decide();
  }

  async #decide() {
    const required = [...this.#picked].map(([capability, level]) => ({ capability, min_support: level }));
    const number = (this.#number += 1);
    try {
      const answer = await this.#app.service.json("/v1/plan", { method: "POST", body: { requirements: { required } } });
      if (number === this.#number) render(decision(answer, required.length), this.#verdict);
    } catch (error) {
      if (number === this.#number) render(html`<p class="user-error">${error.message}</p>`, this.#verdict);
    }
  }
}

function matrix({ backends, emulations }, names) {
  if (!names.length) return html`<p class="facts">The backends declare nothing.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Backends and capabilities"><table class="matrix">
    <thead><tr><th scope="col">capability</th>
      ${backends.map((backend) => html`<th scope="col">${backend.name}${backend.model ? html`<br /><span class="facts">${backend.model}</span>` : nothing}</th>`)}
      <th scope="col">by Accord</th></tr></thead>
    <tbody>${names.map(
      (name) => html`<tr><th scope="row">${name}</th>
        ${backends.map((backend) => cell(backend, name))}
        <td>${emulations[name] ? emulations[name].replaceAll("_", " ") : "–"}</td></tr>`,
    )}</tbody>
  </table></div>`;
}

function cell(backend, name) {
  const { level, reason } = supportLevel(backend.manifest[name]);
  const evidence = backend.evidence?.[name];
  const contradicted = backend.refused.includes(name) || backend.contradicted?.includes(name);
  return html`<td class=${`level-${level}`}>
    <span aria-hidden="true">${MARKS[level] ?? "?"}</span> ${level === "unknown" ? "not declared" : level}${reason ? `: ${reason}` : ""}
    ${contradicted ? html`<br /><strong>its answers contradict this</strong>` : nothing}
    ${evidence ? html`<br /><span class="facts">from ${evidence.source}${evidence.date ? `, ${evidence.date}` : ""}</span>` : nothing}
  </td>`;
}

/** The decision for the picked requirements, backend by backend. */
function decision(answer, count) {
  const { plan, refusal } = answer;
  const offers = plan
    ? [plan.offer, ...plan.fallbacks, ...plan.lost.map((each) => each.offer)]
    : (refusal?.offers ?? []);
  const why = new Map((plan?.lost ?? []).map((each) => [each.backend, each.why]));
  const unique = [...new Map(offers.map((offer) => [offer.backend, offer])).values()];
  return html`<h3>${
      plan ? html`${plan.backend} does this work`
      : html`No backend can do this`
    }</h3>
    ${count ? nothing : html`<p class="facts">Nothing is picked: any backend will do.</p>`}
    ${refusal ? html`<p>${refusal.message}</p>` : nothing}
    ${refusal?.remedies?.length ? html`<p>What would help:</p><ul>${refusal.remedies.map((each) => html`<li>${each.change}</li>`)}</ul>` : nothing}
    <ul class="offers">${unique.map((offer) => offerItem(offer, plan?.backend === offer.backend, why.get(offer.backend)))}</ul>`;
}

function offerItem(offer, isChosen, why) {
  const can = !offer.missing.length;
  const lines = [
    ["native", offer.negotiation.native],
    ["emulated by the backend", offer.negotiation.emulatable],
    ["emulated by Accord", offer.rescues.map((each) => `${each.capability} (${each.strategy.type.replaceAll("_", " ")})`)],
    ["tried without a declaration", offer.tried],
    ["not met, but only preferred", offer.unmet.map((each) => `${each.capability}: ${each.reason}`)],
    ["missing", offer.missing.map((each) => `${each.capability}: ${each.reason}`)],
  ].filter(([, names]) => names.length);
  return html`<li class=${isChosen ? "chosen" : can ? "possible" : "impossible"}>
    <h4>${offer.backend}: ${isChosen ? "chosen" : can ? "could do it" : "cannot do it"}</h4>
    ${why && !isChosen ? html`<p class="facts">${why}</p>` : nothing}
    ${lines.length ? html`<dl>${lines.map(([title, names]) => html`<dt>${title}</dt><dd>${names.join(", ")}</dd>`)}</dl>` : nothing}
  </li>`;
}
