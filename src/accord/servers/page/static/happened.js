// What happened in a turn: the pipeline as a drawing, with the values of its receipt.

import { html, nothing, render } from "./vendor/lit-html.js";
import { EVENT_NAMES, REASONS, RUNGS, listed, milliseconds, shellQuoted } from "./format.js";

const RECEIPT_WAIT_MS = 150;
const RECEIPT_TRIES = 20; // a receipt is stored with the end of the turn; a refused one right after its answer

export class HappenedView {
  #app;
  #box = document.getElementById("happened-body");
  #run = null;
  #isVisible = false;

  constructor(app) {
    this.#app = app;
  }

  select(run) {
    this.#run = run;
    run.finished.then(() => this.#run === run && this.#isVisible && this.#show());
    if (this.#isVisible) this.#show();
  }

  visible(isVisible) {
    this.#isVisible = isVisible;
    if (isVisible) this.#show();
  }

  async #show() {
    const run = this.#run;
    if (run === null) return this.#say("Send a message in the chat first.");
    if (!run.isOver) return this.#say("The turn is still running. Its receipt is written when it ends.");
    this.#say("Reading the receipt…");
    try {
      const receipt = await this.#receipt(run);
      const checked = await this.#app.service.json(`/v1/requests/${run.id}/receipt/verification`).catch(() => null);
      if (this.#run === run) render(page(run, receipt, checked), this.#box);
    } catch (error) {
      if (this.#run === run) this.#say(`There is no receipt: ${error.message}`);
    }
  }

  async #receipt(run) {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#app.service.json(`/v1/requests/${run.id}/receipt`);
      } catch (error) {
        if (error.status !== 404 || tries === RECEIPT_TRIES) throw error;
        await new Promise((resolve) => setTimeout(resolve, RECEIPT_WAIT_MS));
      }
    }
  }

  #say(text) {
    render(html`<p class="facts">${text}</p>`, this.#box);
  }
}

function page(run, receipt, checked) {
  const steps = pipeline(receipt);
  return html`
    <p>Request <code>${receipt.request_id}</code>: <strong class=${`outcome-${receipt.outcome.status}`}>${receipt.outcome.status}</strong>
      ${receipt.outcome.code ? html`(<code>${receipt.outcome.code}</code>) ${receipt.outcome.message ?? ""}` : nothing}</p>
    <ol class="pipeline" aria-label="The pipeline of this turn">
      ${steps.map(
        (step) => html`<li class=${`step step-${step.state}`}>
          <h3>${step.title}</h3><p class="value">${step.value}</p><p class="facts">${step.detail}</p></li>`,
      )}
    </ol>
    ${timeline(receipt.timings)}
    ${receipt.work.map((work, index) => question(work, index, receipt.work.length))}
    ${adaptation(receipt.adaptation)}
    ${sealed(run, receipt, checked)}
  `;
}

/** The five steps with what each decided. */
export function pipeline(receipt) {
  const { work, outcome, adaptation: adapted, request, parties } = receipt;
  const blocks = Object.entries(request.blocks ?? {}).map(([type, count]) => `${count} × ${type}`);
  const wasRefused = outcome.status === "refused" && work.length === 0;
  const planned = work.filter((each) => each.candidates.length);
  const emulated = work.flatMap((each) => each.emulations?.emulated ?? []);
  const attempts = work
    .filter((each) => each.emulations?.emulated?.length)
    .reduce((sum, each) => sum + (each.emulations.attempts?.length ?? 0), 0);
  const answered = work.map((each) => each.backend?.name).filter(Boolean);
  const fallbacks = work.reduce((sum, each) => sum + each.fallbacks.length, 0);
  const changed = adapted ? RUNGS.slice(1).filter((rung) => adapted.totals[rung]) : [];
  return [
    {
      title: "Admit",
      state: wasRefused ? "refused" : "done",
      value: wasRefused ? "refused" : "accepted",
      detail: `${request.text_chars} characters${blocks.length ? `, ${blocks.join(", ")}` : ""}; ${parties.agent.name} accepts ${parties.agent.accepts.join(", ")}`,
    },
    {
      title: "Plan",
      state: planned.length ? "done" : "empty",
      value: planned.length ? `${planned.length} ${planned.length === 1 ? "question" : "questions"}` : "no model asked",
      detail: planned.length
        ? `${new Set(planned.flatMap((each) => each.candidates.map((one) => one.backend))).size} backends considered`
        : "The agent answered by itself",
    },
    {
      title: "Emulate",
      state: emulated.length ? "changed" : "empty",
      value: emulated.length ? listed([...new Set(emulated.map((each) => each.capability))]) : "nothing",
      detail: emulated.length ? `${attempts} ${attempts === 1 ? "attempt" : "attempts"}` : "Nothing had to be emulated",
    },
    {
      title: "Dispatch",
      state: answered.length ? (fallbacks ? "changed" : "done") : work.length ? "refused" : "empty",
      value: answered.length ? listed([...new Set(answered)]) : work.length ? "no backend" : "–",
      detail: fallbacks ? `${fallbacks} ${fallbacks === 1 ? "fallback" : "fallbacks"}` : "No fallback was needed",
    },
    {
      title: "Adapt",
      state: adapted ? (changed.length ? "changed" : "done") : "empty",
      value: adapted ? (changed.length ? changed.map((rung) => `${adapted.totals[rung]} ${rung}`).join(", ") : "all native") : "–",
      detail: adapted ? `${RUNGS.reduce((sum, rung) => sum + (adapted.totals[rung] ?? 0), 0)} packets` : "No output",
    },
  ];
}

function timeline({ plan_ms: planned, first_packet_ms: first, total_ms: total }) {
  const rows = [
    ["Planned", planned],
    ["First packet", first],
    ["Complete", total],
  ].filter(([, value]) => value !== undefined && value !== null);
  return html`<section class="timings"><h3>Timings</h3><dl>
    ${rows.map(
      ([name, value]) => html`<dt>${name}</dt>
        <dd><meter min="0" max=${total || 1} .value=${value} aria-label=${name}></meter> ${milliseconds(value)}</dd>`,
    )}
  </dl></section>`;
}

function question(work, index, count) {
  const emulations = work.emulations;
  return html`<section class="work">
    <h3>Question ${count > 1 ? index + 1 : ""} to a model${work.backend ? html`, answered by ${work.backend.name}${work.backend.model ? ` (${work.backend.model})` : ""}` : ", refused"}</h3>
    ${table(
      "Needs",
      ["capability", "at least", "why"],
      work.needs.map((need) => [need.capability, `${need.min_support}${need.required ? "" : " (preferred)"}`, need.because]),
    )}
    ${table(
      "Backends",
      ["backend", "decision", "why"],
      work.candidates.map((each) => [each.backend, each.chosen ? "chosen" : "lost", each.why]),
    )}
    ${table(
      "Emulated by Accord",
      ["capability", "how"],
      (emulations?.emulated ?? []).map((each) => [each.capability, each.strategy.detail ?? each.strategy.prompt ?? each.strategy.type]),
    )}
    ${table(
      "Attempts",
      ["attempt", "result", "problems"],
      (emulations?.attempts ?? []).map((each) => [each.number, each.ok ? "accepted" : "asked again", plainValue(each.problems ?? [])]),
    )}
    ${table(
      "Effects",
      ["capability", "effect", "count"],
      (emulations?.effects ?? []).map((each) => [each.capability, each.kind.replaceAll("_", " "), each.count]),
    )}
    ${table(
      "Backends that failed before",
      ["backend", "code", "message"],
      work.fallbacks.map((each) => [each.backend, each.code, each.message ?? ""]),
    )}
    ${work.usage ? html`<p class="facts">Usage: ${Object.entries(work.usage).map(([name, value]) => `${name} ${plainValue(value)}`).join(", ")}</p>` : nothing}
  </section>`;
}

function adaptation(report) {
  if (!report) return nothing;
  const changed = report.entries.filter((entry) => entry.rung !== "native");
  if (!changed.length) return nothing;
  return html`<section>${table(
    "Adapted for the client that sent the request",
    ["item", "rung", "why"],
    changed.map((entry) => [EVENT_NAMES[entry.type] ?? entry.type, entry.rung, REASONS[entry.reason] ?? entry.reason]),
  )}</section>`;
}

function sealed(run, receipt, checked) {
  const verdict =
    checked === null ? "not checked"
    : checked.ok ? `verified: ${checked.count} ${checked.count === 1 ? "receipt" : "receipts"} of this session, unaltered and in order`
    : "broken";
  return html`<section class="receipt">
    <h3>Receipt</h3>
    <dl>
      <dt>Hash</dt><dd><code>${receipt.hash}</code></dd>
      <dt>Previous</dt><dd><code>${receipt.previous ?? "none: the first of its session"}</code></dd>
      <dt>Chain</dt><dd class=${checked?.ok ? "good" : checked ? "bad" : ""}>${verdict}</dd>
      <dt>Signature</dt><dd>${receipt.signature ? "signed" : "not signed"}</dd>
    </dl>
    ${checked?.wrong?.length ? html`<pre tabindex="0">${JSON.stringify(checked.wrong, null, 2)}</pre>` : nothing}
    <p class="actions">
      <button type="button" class="small" @click=${() => save(`receipt-${receipt.request_id}.json`, receipt)}>Save as JSON</button>
      <button type="button" class="small" @click=${(event) => copy(event.target, curlLine(run.request))}>Copy a curl line</button>
    </p>
    <details><summary>All of it</summary><pre tabindex="0">${JSON.stringify(receipt, null, 2)}</pre></details>
  </section>`;
}

function table(title, names, rows) {
  if (!rows.length) return nothing;
  return html`<h4>${title}</h4><div class="scroll" tabindex="0" role="region" aria-label=${title}><table>
    <thead><tr>${names.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

function plainValue(value) {
  if (Array.isArray(value)) return value.map(plainValue).join("; ");
  return value !== null && typeof value === "object" ? JSON.stringify(value) : String(value ?? "");
}

/** A command that sends this request again under a new id. */
export function curlLine(request) {
  const id = `'"$(uuidgen 2>/dev/null || cat /proc/sys/kernel/random/uuid)"'`;
  const body = JSON.stringify({ ...request, request_id: "NEW_ID" });
  return (
    `curl -N ${shellQuoted(`${location.origin}/v1/assist`)} -H 'content-type: application/json' ` +
    `-H 'accept: text/event-stream' -d ${shellQuoted(body).replace("NEW_ID", id)}`
  );
}

function save(name, value) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${JSON.stringify(value, null, 2)}\n`], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
}

/** Copy a text; where the clipboard is not allowed, show it to be copied by hand. */
export async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    const shown = document.createElement("textarea");
    shown.value = text;
    shown.readOnly = true;
    shown.rows = 4;
    shown.setAttribute("aria-label", "Text to copy");
    button.after(shown);
    shown.select();
  }
}
