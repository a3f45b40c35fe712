// Renders markdown while it arrives. Every character is parsed once, and only allow-listed elements are made.
//
// The text is written by a model, so it is hostile: HTML in it is text, links and images are checked against a list,
// and each block is passed through DOMPurify when it is complete.

import * as smd from "./vendor/streaming-markdown.js";
import DOMPurify from "./vendor/purify.js";

const SAFE_LINK = /^(https?:\/\/|mailto:)[^\s]/i;
const INLINE_IMAGE = /^data:image\/(png|jpe?g|gif|webp|avif|apng|bmp)[;,]/i;

const TAGS = {
  [smd.PARAGRAPH]: "p",
  // The page has its own headings of the first levels.
  [smd.HEADING_1]: "h3",
  [smd.HEADING_2]: "h4",
  [smd.HEADING_3]: "h5",
  [smd.HEADING_4]: "h6",
  [smd.HEADING_5]: "h6",
  [smd.HEADING_6]: "h6",
  [smd.BLOCKQUOTE]: "blockquote",
  [smd.LINE_BREAK]: "br",
  [smd.RULE]: "hr",
  [smd.ITALIC_AST]: "em",
  [smd.ITALIC_UND]: "em",
  [smd.STRONG_AST]: "strong",
  [smd.STRONG_UND]: "strong",
  [smd.STRIKE]: "s",
  [smd.CODE_INLINE]: "code",
  [smd.LINK]: "a",
  [smd.RAW_URL]: "a",
  [smd.LIST_UNORDERED]: "ul",
  [smd.LIST_ORDERED]: "ol",
  [smd.LIST_ITEM]: "li",
  [smd.TABLE]: "table",
  [smd.EQUATION_BLOCK]: "code",
  [smd.EQUATION_INLINE]: "code",
};

const CLEAN = {
  IN_PLACE: true,
  ALLOWED_TAGS: [
    ...new Set([...Object.values(TAGS), "pre", "code", "img", "span", "input", "thead", "tbody", "tr", "th", "td"]),
    "#text",
    "div",
    "button",
  ],
  ALLOWED_ATTR: "href src alt class title start type disabled checked rel target tabindex scope role aria-label".split(" "),
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};

/** Whether a link to this address may be clicked. */
export function isSafeLink(address) {
  return SAFE_LINK.test(address);
}

/** Whether this is an image that needs no request. SVG is a document with scripts, so it is not one. */
export function isInlineImage(address) {
  return INLINE_IMAGE.test(address);
}

/** A link that opens in a new tab and sends no referrer; plain text if its address is not safe. */
export function makeLink(address, text) {
  if (!isSafeLink(address)) {
    const span = document.createElement("span");
    span.className = "removed-link";
    span.title = "This link was removed: only web and mail addresses can be opened";
    span.textContent = text;
    return span;
  }
  const link = document.createElement("a");
  setHref(link, address);
  link.textContent = text;
  return link;
}

function setHref(link, address) {
  link.href = address;
  link.target = "_blank";
  link.rel = "noopener noreferrer nofollow";
}

/** Writes markdown into an element, piece by piece. */
export class MarkdownWriter {
  #root;
  #nodes;
  #parser;

  constructor(root) {
    this.#root = root;
    this.#nodes = [root];
    this.#parser = smd.parser({
      data: this,
      add_token: (_, token) => this.#open(token),
      end_token: () => this.#close(),
      add_text: (_, text) => this.#addText(text),
      set_attr: (_, name, value) => this.#setAttribute(name, value),
    });
  }

  write(text) {
    smd.parser_write(this.#parser, text);
  }

  /** Complete the last block; nothing can be written after that. */
  end() {
    smd.parser_end(this.#parser);
    while (this.#nodes.length > 1) this.#close();
  }

  /** Put an element at the end of what was written: into the open paragraph, or behind a block of code. */
  insert(element) {
    const code = this.#nodes.find((node) => node.localName === "pre" || node.localName === "table");
    if (code) code.after(element);
    else this.#nodes.at(-1).append(element);
  }

  #open(token) {
    if (token === 1) return; // the document itself
    let parent = this.#nodes.at(-1);
    let node;
    switch (token) {
      case smd.CODE_BLOCK:
      case smd.CODE_FENCE:
        parent = parent.appendChild(document.createElement("pre"));
        parent.tabIndex = 0; // so that a wide block can be scrolled by keyboard
        node = document.createElement("code");
        break;
      case smd.CHECKBOX:
        node = document.createElement("input");
        node.type = "checkbox";
        node.disabled = true;
        break;
      case smd.IMAGE:
        node = document.createElement("span");
        node.className = "image";
        break;
      case smd.TABLE_ROW: {
        const part = parent.children.length === 0 ? "thead" : "tbody";
        parent = part === "tbody" && parent.children.length > 1 ? parent.children[1] : parent.appendChild(document.createElement(part));
        node = document.createElement("tr");
        break;
      }
      case smd.TABLE_CELL:
        node = document.createElement(parent.parentElement?.localName === "thead" ? "th" : "td");
        break;
      default:
        node = document.createElement(TAGS[token] ?? "span");
    }
    this.#nodes.push(parent.appendChild(node));
  }

  #close() {
    const node = this.#nodes.pop();
    if (this.#nodes.length === 1) {
      const block = node.localName === "code" && node.parentElement?.localName === "pre" ? node.parentElement : node;
      DOMPurify.sanitize(block, CLEAN);
      block.classList.add("block");
    }
  }

  #addText(text) {
    const node = this.#nodes.at(-1);
    // One growing text node instead of one for each token.
    if (node.lastChild instanceof Text) node.lastChild.appendData(text);
    else node.append(text);
  }

  #setAttribute(name, value) {
    const node = this.#nodes.at(-1);
    switch (name) {
      case smd.HREF:
        if (isSafeLink(value)) setHref(node, value);
        else {
          node.className = "removed-link";
          node.title = "This link was removed: only web and mail addresses can be opened";
        }
        break;
      case smd.SRC:
        this.#showImage(node, value);
        break;
      case smd.LANG:
        if (/^[\w+#.-]{1,30}$/.test(value)) node.parentElement.title = value;
        break;
      case smd.CHECKED:
        node.checked = true;
        break;
      case smd.START:
        node.start = Number(value) || 1;
        break;
    }
  }

  #showImage(node, address) {
    const description = node.textContent || "image";
    if (isInlineImage(address)) {
      const image = document.createElement("img");
      image.src = address;
      image.alt = description;
      node.replaceChildren(image);
    } else {
      // Loading it would send a request to another host.
      node.replaceChildren("Image: ", makeLink(address, description));
    }
  }
}
