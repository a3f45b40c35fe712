// Words and numbers as the page shows them. Pure.

export const EVENT_NAMES = {
  citation_block: "Citations",
  progress_indicator: "Progress",
  media_carousel: "Media",
  markdown_block: "Markdown block",
  user_error: "Error of a sub-task",
  thought_trace: "Thought",
  delta: "Text",
  error: "Error",
  close: "End",
};

export const REASONS = {
  supported: "The client can show it.",
  always_delivered: "Every client gets it.",
  markup_removed: "The client does not show markdown, so the text was written without markup.",
  coalesced: "Several small updates became one.",
  smaller_image: "The image was made smaller for this client.",
  image_not_reduced: "The image is larger than the client asked for and could not be made smaller.",
  image_size_unknown: "The image may be larger than the client asked for; its size is not known.",
  author_fallback: "The agent's author gave this text for clients that cannot show the item.",
  author_text: "The agent's author gave a text instead.",
  not_declared: "The client did not declare this type of event.",
  unknown_type: "The type is not known to the protocol, and the client did not declare it.",
  malformed: "The item does not have the fields of its type.",
  empty: "The item has no content.",
  transient: "It is only of interest while the turn runs.",
  private: "Thoughts are for clients that ask for them.",
  low_priority: "Other items were more important.",
  limit_reached: "There were too many items of this kind.",
  below_min_fidelity: "The client refuses items below its minimum fidelity.",
  stream_ended: "The stream ended before it could be shown.",
};

export const RUNGS = ["native", "simplified", "substituted", "described", "deferred", "dropped", "refused"];

export const CONTENT_KINDS = {
  text: "text",
  resource_link: "links",
  image: "images",
  audio: "audio",
  resource: "embedded files",
};

export const CONTENT_CAPABILITIES = { image: "image", audio: "audio", resource: "embeddedContext" };

/** "a, b and c" */
export function listed(items) {
  return items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
}

export function milliseconds(value) {
  if (value === undefined || value === null) return "–";
  return value >= 1000 ? `${(value / 1000).toFixed(value >= 10_000 ? 0 : 1)} s` : `${Math.round(value * 10) / 10} ms`;
}

export function bytes(count) {
  if (count < 1024) return `${count} B`;
  return count < 1024 * 1024 ? `${Math.round(count / 1024)} kB` : `${(count / 1024 / 1024).toFixed(1)} MB`;
}

/** A support level of a manifest as `{level, reason}`. */
export function supportLevel(level) {
  if (level === undefined || level === null) return { level: "unknown", reason: "" };
  if (typeof level === "string") return { level, reason: "" };
  const [name, more] = Object.entries(level)[0] ?? ["unknown", {}];
  return { level: name, reason: more?.reason ?? "" };
}

/** A text between single quotes for a POSIX shell. */
export function shellQuoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A random UUID; also on pages that are not served from localhost or over TLS, where `randomUUID` is missing. */
export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bits = crypto.getRandomValues(new Uint8Array(16));
  bits[6] = (bits[6] & 0x0f) | 0x40;
  bits[8] = (bits[8] & 0x3f) | 0x80;
  const hex = [...bits].map((each) => each.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
