// The TypeScript SDK's client as a conforming editor: of its blocks, it sends only what the agent declares.
// Prints what it received as JSON. A request without an answer after forty seconds is printed as "hangs".
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const FLAGS = { image: "image", audio: "audio", resource: "embeddedContext" };
const [blocks, command, ...args] = process.argv.slice(2);
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const received = { updates: [], notSent: [] };

function settle(request) {
  const waiting = new Promise((resolve) => setTimeout(() => resolve("hangs"), 40_000));
  const failed = (error) => ({ code: error.code, message: error.message, data: error.data });
  return Promise.race([request.catch(failed), waiting]);
}

await acp
  .client({ name: "accord-conforming" })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    received.updates.push(params.update);
  })
  .connectWith(stream, async (agent) => {
    received.initialized = await agent.request(acp.methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: {},
    });
    const declared = received.initialized.agentCapabilities?.promptCapabilities ?? {};
    const { sessionId } = await agent.request(acp.methods.agent.session.new, { cwd: "/", mcpServers: [] });
    const prompt = JSON.parse(blocks).filter((block) => {
      const mayBeSent = !(block.type in FLAGS) || declared[FLAGS[block.type]] === true;
      if (!mayBeSent) received.notSent.push(block.type);
      return mayBeSent;
    });
    received.answered = await settle(agent.request(acp.methods.agent.session.prompt, { sessionId, prompt }));
    const text = [{ type: "text", text: "again" }];
    received.again = await settle(agent.request(acp.methods.agent.session.prompt, { sessionId, prompt: text }));
  });

console.log(JSON.stringify(received));
child.stdin.end();
process.exit(0);
