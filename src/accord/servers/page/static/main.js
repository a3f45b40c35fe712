// Starts the page: reads what the service can do, switches between the views, and asks for a token where one is needed.

import { BackendsView } from "./backends.js";
import { ChatView } from "./chat.js";
import { HappenedView } from "./happened.js";
import { PlaygroundView } from "./playground.js";
import { Conversation } from "./runs.js";
import { Service } from "./service.js";
import { SidesView } from "./sides.js";

const TABS = ["chat", "sides", "happened", "backends", "playground"];

class App {
  service = new Service();
  conversation = new Conversation(this.service);
  agent = { name: "the agent", accepts: ["text"] };

  #chat = new ChatView(this);
  #sides = new SidesView(this);
  #happened = new HappenedView(this);
  #backends = new BackendsView(this);
  #playground = new PlaygroundView(this);
  #tab = "chat";

  async start() {
    this.service.authenticate = (problem) => this.#askForToken(problem);
    this.#addTabs();
    document.getElementById("new-chat").addEventListener("click", () => this.#newConversation());
    addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) this.#chat.stop();
    });
    this.#show(TABS.includes(location.hash.slice(1)) ? location.hash.slice(1) : "chat");
    await this.#describe();
    this.#chat.focus();
  }

  /** A turn was sent from the chat. */
  runStarted(run) {
    this.#sides.select(run);
    this.#happened.select(run);
  }

  /** Show an earlier turn in another view. */
  showRun(run, view) {
    this.#sides.select(run);
    this.#happened.select(run);
    this.#show(view);
    document.getElementById(`tab-${view}`).focus();
  }

  async #describe() {
    const problem = document.getElementById("problem");
    try {
      const capabilities = await this.service.json("/v1/capabilities");
      this.agent = capabilities.agent;
      this.#chat.describe(capabilities.agent);
      this.#sides.describe(capabilities.events);
      this.#backends.describe(capabilities);
      this.#playground.describe(capabilities);
      this.#playground.visible(this.#tab === "playground");
      problem.hidden = true;
    } catch (error) {
      problem.hidden = false;
      problem.querySelector("p").textContent = error.message;
      problem.querySelector("button").onclick = () => this.#describe();
    }
  }

  #newConversation() {
    this.#chat.stop();
    this.conversation = new Conversation(this.service);
    this.#chat.clear();
    this.#show("chat");
  }

  #addTabs() {
    const tabs = TABS.map((name) => document.getElementById(`tab-${name}`));
    for (const [index, tab] of tabs.entries()) {
      tab.addEventListener("click", () => this.#show(TABS[index]));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        const next = event.key === "Home" ? 0 : event.key === "End" ? TABS.length - 1 : step && (index + step + TABS.length) % TABS.length;
        if (next === undefined) return;
        event.preventDefault();
        this.#show(TABS[next]);
        tabs[next].focus();
      });
    }
    addEventListener("hashchange", () => {
      const name = location.hash.slice(1);
      if (TABS.includes(name)) this.#show(name);
    });
  }

  #show(name) {
    this.#tab = name;
    for (const each of TABS) {
      const tab = document.getElementById(`tab-${each}`);
      tab.setAttribute("aria-selected", String(each === name));
      tab.tabIndex = each === name ? 0 : -1;
      document.getElementById(each).hidden = each !== name;
    }
    if (location.hash.slice(1) !== name) history.replaceState(null, "", `#${name}`);
    this.#sides.visible(name === "sides");
    this.#happened.visible(name === "happened");
    this.#playground.visible(name === "playground");
  }

  /** Ask for a token and its user; both stay in the memory of this page. */
  #askForToken(problem) {
    const dialog = document.getElementById("token-dialog");
    const [form, user, token] = ["token-form", "token-user", "token-value"].map((id) => document.getElementById(id));
    document.getElementById("token-problem").textContent = problem ?? "";
    if (!dialog.open) dialog.showModal();
    user.focus();
    // One dialog for all requests that wait for it.
    this.asking ??= new Promise((resolve) => {
      form.onsubmit = (event) => {
        event.preventDefault();
        this.service.token = token.value.trim();
        this.service.user = { id: user.value.trim(), name: user.value.trim() };
        token.value = "";
        dialog.close();
        this.asking = undefined;
        resolve();
      };
    });
    return this.asking;
  }
}

new App().start();
