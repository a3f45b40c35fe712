// The openai package for JavaScript with its defaults: each call once, against the server whose address is given.
// With a model as the second argument, it uses that one, and prints the error for a model that does not exist.
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const [address, given] = process.argv.slice(2);
const model = given ?? "gpt-4o";
const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: "a-key", maxRetries: 0 });
const prompt = "Read the file note.txt in the current folder and tell me what it says.";
const hello = [{ role: "user", content: "Hello" }];
const pixel =
  "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
const parameters = { type: "object", properties: { path: { type: "string" } }, required: ["path"], additionalProperties: false };
const schema = { type: "object", properties: { name: { type: "string" } }, required: ["name"], additionalProperties: false };

async function chat() {
  const { completions } = client.chat;
  await completions.create({ model, messages: hello });
  for await (const _ of await completions.create({ model, messages: hello, stream: true }));
  await completions.stream({ model, messages: hello }).finalContent();
  const response_format = { type: "json_schema", json_schema: { name: "city", schema, strict: true } };
  await completions.parse({ model, messages: hello, response_format });
  const image = { type: "image_url", image_url: { url: pixel } };
  await completions.create({ model, messages: [{ role: "user", content: [{ type: "text", text: "What is this?" }, image] }] });
  const read = (text) => readFileSync(JSON.parse(text).path, "utf8");
  const tool = { type: "function", function: { name: "read_file", description: "Read a file.", parameters, function: read } };
  return completions.runTools({ model, messages: [{ role: "user", content: prompt }], tools: [tool] }).finalContent();
}

async function responses() {
  await client.responses.create({ model, input: "Hello" });
  for await (const _ of await client.responses.create({ model, input: "Hello", stream: true }));
  await client.responses.stream({ model, input: "Hello" }).finalResponse();
  await client.responses.parse({ model, input: "A city?", text: { format: { type: "json_schema", name: "city", schema, strict: true } } });
  const tools = [{ type: "function", name: "read_file", description: "Read a file.", parameters, strict: true }];
  const input = [{ role: "user", content: prompt }];
  const called = await client.responses.create({ model, input, tools });
  const [call] = called.output;
  const output = readFileSync(JSON.parse(call.arguments).path, "utf8");
  const result = { type: "function_call_output", call_id: call.call_id, output };
  return (await client.responses.create({ model, input: [...input, call, result], tools })).output_text;
}

const names = [];
for await (const each of client.models.list()) names.push(each.id);
const answers = { names, chat: await chat(), responses: await responses() };
if (given) {
  answers.error = await client.chat.completions
    .create({ model: "no-such-model", messages: hello })
    .catch((error) => ({ kind: error.constructor.name, status: error.status, message: error.message }));
}
console.log(JSON.stringify(answers));
