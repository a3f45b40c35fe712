// A well-behaved agent made with the TypeScript SDK: it echoes text, checks its sessions, and can be cancelled.
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const sessions = new Map();

const app = acp
  .agent({ name: "typescript-sdk-echo" })
  .onRequest(acp.methods.agent.initialize, () => ({
    protocolVersion: acp.PROTOCOL_VERSION,
    agentCapabilities: {},
    agentInfo: { name: "typescript-sdk-echo", version: "1.0.0" },
  }))
  .onRequest(acp.methods.agent.session.new, () => {
    const sessionId = crypto.randomUUID();
    sessions.set(sessionId, { cancel: () => {} });
    return { sessionId };
  })
  .onNotification(acp.methods.agent.session.cancel, ({ params }) => {
    sessions.get(params.sessionId)?.cancel();
  })
  .onRequest(acp.methods.agent.session.prompt, async ({ params, client }) => {
    const { sessionId, prompt } = params;
    const session = sessions.get(sessionId);
    if (session === undefined) {
      throw acp.RequestError.invalidParams({ sessionId }, "There is no such session");
    }
    for (const block of prompt) {
      if (!["text", "resource_link"].includes(block.type)) {
        throw acp.RequestError.invalidParams({ contentType: block.type }, "This content was not declared");
      }
    }
    const cancelled = new Promise((resolve) => {
      session.cancel = resolve;
    });
    for (const block of prompt) {
      const text = block.type === "text" ? block.text : block.uri;
      const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text } };
      await client.notify(acp.methods.client.session.update, { sessionId, update });
    }
    if (prompt.some((block) => block.text?.includes("slowly"))) {
      await cancelled;
      return { stopReason: "cancelled" };
    }
    return { stopReason: "end_turn" };
  });

const stream = acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
const connection = app.connect(stream);
await connection.closed;
