// The chat: prompt, attachments, and the answers as they come.

import { AnswerView } from "./answer.js";
import { acceptedFiles, explainRefusal, kindOf, readBlock } from "./attachments.js";
import { button, element } from "./dom.js";
import { bytes } from "./format.js";

const STATES = {
  running: "Answering…",
  resuming: "The connection was lost; resuming…",
  done: "",
  stopped: "Stopped.",
  failed: "",
};

export class ChatView {
  #app;
  #messages = document.getElementById("messages");
  #form = document.getElementById("composer");
  #input = document.getElementById("prompt");
  #files = document.getElementById("files");
  #attach = document.getElementById("attach");
  #list = document.getElementById("attachments");
  #refusal = document.getElementById("refusal");
  #send = document.getElementById("send");
  #stop = document.getElementById("stop");
  #status = document.getElementById("status");
  #attached = [];
  #isAtEnd = true;
  #top = 0;
  #sizes = new ResizeObserver(() => this.#scroll()); // also when an image has been loaded

  constructor(app) {
    this.#app = app;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.#submit();
      }
    });
    this.#input.addEventListener("input", () => this.#fitInput());
    this.#attach.addEventListener("click", () => this.#files.click());
    this.#files.addEventListener("change", () => {
      this.#add([...this.#files.files]);
      this.#files.value = "";
    });
    this.#input.addEventListener("paste", (event) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (files.length) {
        event.preventDefault();
        this.#add(files);
      }
    });
    this.#stop.addEventListener("click", () => this.stop());
    this.#messages.addEventListener("scroll", () => {
      const { scrollHeight, scrollTop, clientHeight } = this.#messages;
      // What grows leaves the end behind as well, so that only scrolling up counts.
      if (scrollTop < this.#top) this.#isAtEnd = false;
      if (scrollHeight - scrollTop - clientHeight < 40) this.#isAtEnd = true;
      this.#top = scrollTop;
    });
    this.#acceptDrops(document.getElementById("chat"));
    for (const example of document.querySelectorAll("[data-prompt]")) {
      example.addEventListener("click", () => this.#sendPrompt(example.dataset.prompt, []));
    }
  }

  /** Offer the kinds of files that the agent accepts. */
  describe(agent) {
    this.#files.accept = acceptedFiles(agent.accepts);
    const takesFiles = ["image", "audio", "resource"].some((kind) => agent.accepts.includes(kind));
    this.#attach.hidden = !takesFiles;
    document.getElementById("agent-name").textContent = agent.name;
  }

  focus() {
    this.#input.focus();
  }

  /** Cancel the turn that runs. */
  stop() {
    const run = this.#app.conversation.latest;
    if (run && !run.isOver) run.stop();
  }

  /** Remove all messages: a new conversation begins. */
  clear() {
    this.#messages.querySelectorAll(".turn").forEach((each) => each.remove());
    document.getElementById("welcome").hidden = false;
    this.#showState("done");
    this.focus();
  }

  #acceptDrops(area) {
    area.addEventListener("dragover", (event) => {
      if (event.dataTransfer.types.includes("Files")) {
        event.preventDefault();
        area.classList.add("dropping");
      }
    });
    area.addEventListener("dragleave", (event) => {
      if (!area.contains(event.relatedTarget)) area.classList.remove("dropping");
    });
    area.addEventListener("drop", (event) => {
      event.preventDefault();
      area.classList.remove("dropping");
      this.#add([...event.dataTransfer.files]);
    });
  }

  #add(files) {
    this.#refusal.replaceChildren();
    this.#refusal.hidden = true;
    for (const file of files) {
      const why = explainRefusal(file, this.#app.agent);
      if (why) this.#refuse(file, why);
      else this.#attached.push(file);
    }
    this.#showAttachments();
  }

  #refuse(file, why) {
    const anyway = button("small", "Send it anyway, to see the refusal of the service", () => {
      this.#refusal.hidden = true;
      this.#attached.push(file);
      this.#showAttachments();
      this.#sendPrompt(this.#input.value.trim() || `What is in ${file.name}?`, this.#attached.splice(0));
    });
    this.#refusal.append(element("p", "", why), anyway);
    this.#refusal.hidden = false;
  }

  #showAttachments() {
    this.#list.replaceChildren(
      ...this.#attached.map((file) => {
        const remove = button("remove", "×", () => {
          this.#attached = this.#attached.filter((each) => each !== file);
          this.#showAttachments();
          this.#input.focus();
        });
        remove.setAttribute("aria-label", `Remove ${file.name}`);
        return element("li", "", `${file.name} (${kindOf(file)}, ${bytes(file.size)})`, remove);
      }),
    );
  }

  #submit() {
    const text = this.#input.value.trim();
    const run = this.#app.conversation.latest;
    if ((!text && !this.#attached.length) || (run && !run.isOver)) return;
    this.#sendPrompt(text, this.#attached.splice(0));
  }

  async #sendPrompt(text, files) {
    const latest = this.#app.conversation.latest;
    if (latest && !latest.isOver) return;
    let content;
    try {
      content = await Promise.all(files.map(readBlock));
    } catch (error) {
      this.#refusal.replaceChildren(element("p", "", error.message));
      this.#refusal.hidden = false;
      return;
    }
    this.#input.value = "";
    this.#refusal.hidden = true;
    this.#fitInput();
    this.#showAttachments();
    this.#show(this.#app.conversation.send(text, content), files);
  }

  #show(run, files) {
    document.getElementById("welcome").hidden = true;
    const again = () => this.#sendPrompt(run.query, files);
    const answer = new AnswerView("markdown", { retry: again });
    const turn = element("article", "turn", this.#question(run, files, again), answer.element);
    turn.setAttribute("aria-label", "Question and answer");
    const footer = element("footer", "turn-footer");
    turn.append(footer);
    this.#messages.append(turn);
    this.#sizes.observe(turn);
    this.#isAtEnd = true;
    this.#scroll();
    this.#showState("running");
    run.follow({
      packet: (packet) => answer.add(packet),
      failed: (error) => answer.fail(error),
      changed: (state) => {
        this.#showState(state);
        if (!run.isOver) return;
        answer.end();
        footer.append(...this.#runLinks(run));
        this.#status.textContent = state === "done" ? "The answer is complete." : this.#status.textContent;
      },
    });
    this.#app.runStarted(run);
  }

  #question(run, files, again) {
    const edit = button("small", "Edit", () => {
      this.#input.value = run.query;
      this.#attached = [...files];
      this.#showAttachments();
      this.#fitInput();
      this.#input.focus();
    });
    edit.title = "Put this prompt into the input again";
    const question = element("div", "question", element("p", "", run.query || "(no text)"));
    if (files.length) question.append(element("p", "facts", files.map((file) => file.name).join(", ")));
    question.append(element("div", "question-actions", edit, button("small", "Send again", again)));
    return question;
  }

  #runLinks(run) {
    return [
      ["Side by side", "sides"],
      ["What happened", "happened"],
    ].map(([text, view]) => button("small", text, () => this.#app.showRun(run, view)));
  }

  #showState(state) {
    const isRunning = state === "running" || state === "resuming";
    this.#stop.hidden = !isRunning;
    this.#send.disabled = isRunning;
    this.#status.textContent = STATES[state];
  }

  #scroll() {
    if (this.#isAtEnd) this.#messages.scrollTop = this.#messages.scrollHeight;
  }

  #fitInput() {
    this.#input.rows = Math.min(8, Math.max(2, this.#input.value.split("\n").length));
  }
}
