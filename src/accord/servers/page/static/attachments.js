// Files as content blocks, and why a file is not accepted. The service decides; this explains before anything is sent.

import { CONTENT_CAPABILITIES, CONTENT_KINDS, listed } from "./format.js";

const MAX_BYTES = 20 * 1024 * 1024;
const TEXT_TYPE = /^text\/|[/+](json|xml|yaml|toml|javascript|typescript)$/;
const TEXT_NAME = /\.(txt|md|csv|tsv|json|jsonl|yaml|yml|toml|xml|html|css|js|ts|py|rs|go|c|h|cpp|java|sh|sql|log|ini)$/i;

/** The type of content block that a file becomes. */
export function kindOf(file) {
  const family = file.type.split("/")[0];
  return family === "image" || family === "audio" ? family : "resource";
}

/** The value of a file input's `accept` for an agent that accepts these types of content. */
export function acceptedFiles(accepts) {
  if (accepts.includes("resource")) return "";
  return ["image", "audio"].filter((kind) => accepts.includes(kind)).map((kind) => `${kind}/*`).join(",");
}

/** Why this file would be refused; null if it would not. */
export function explainRefusal(file, agent) {
  const kind = kindOf(file);
  if (!agent.accepts.includes(kind)) {
    const accepted = listed(agent.accepts.map((each) => CONTENT_KINDS[each] ?? each));
    return (
      `${file.name}: ${agent.name} does not accept ${CONTENT_KINDS[kind]}. It accepts ${accepted}; ` +
      `promptCapabilities.${CONTENT_CAPABILITIES[kind]} is not declared.`
    );
  }
  if (file.size > MAX_BYTES) return `${file.name}: larger than 20 MB, which is the most that this page sends.`;
  return null;
}

/** Read a file as a content block. */
export async function readBlock(file) {
  const kind = kindOf(file);
  if (kind !== "resource") return { type: kind, mimeType: file.type, data: await readBase64(file) };
  const uri = `file:///${encodeURIComponent(file.name)}`;
  if (TEXT_TYPE.test(file.type) || TEXT_NAME.test(file.name)) {
    const mimeType = file.type || "text/plain";
    return { type: "resource", resource: { uri, mimeType, text: await file.text() } };
  }
  const mimeType = file.type || "application/octet-stream";
  return { type: "resource", resource: { uri, mimeType, blob: await readBase64(file) } };
}

function readBase64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error(`${file.name} cannot be read`));
    reader.readAsDataURL(file);
  });
}
