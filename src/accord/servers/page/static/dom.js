// Makes elements. Text is always text, never HTML.

import { bytes } from "./format.js";

const MAX_JSON = 20_000; // characters

/** Make an element with a class and children. */
export function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/** Make a button that calls this function. */
export function button(className, text, clicked) {
  const made = element("button", className, text);
  made.type = "button";
  made.addEventListener("click", clicked);
  return made;
}

/** A value as JSON, folded. */
export function jsonDetails(title, value) {
  const text = JSON.stringify(value, null, 2) ?? "";
  const shown = text.length > MAX_JSON ? `${text.slice(0, MAX_JSON)}\n… ${bytes(text.length)} in all` : text;
  const pre = element("pre", "", shown);
  pre.tabIndex = 0;
  return element("details", "", element("summary", "", title), pre);
}
