// The TypeScript SDK's client against whatever agent is named: says hello, asks, and prints what it was told, as JSON.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const [blocks, command, ...args] = process.argv.slice(2);
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const updates = [];
const told = { updates };

await acp
  .client({ name: "accord-peer" })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    updates.push(params.update);
  })
  .connectWith(stream, async (agent) => {
    told.initialized = await agent.request(acp.methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: {},
    });
    const { sessionId } = await agent.request(acp.methods.agent.session.new, { cwd: "/", mcpServers: [] });
    try {
      told.answered = await agent.request(acp.methods.agent.session.prompt, { sessionId, prompt: JSON.parse(blocks) });
    } catch (error) {
      told.refused = { code: error.code, message: error.message, data: error.data };
    }
  });

console.log(JSON.stringify(told));
child.stdin.end();
process.exit(0);
