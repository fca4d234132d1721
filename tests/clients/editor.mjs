// An editor that is written with the official SDK for TypeScript. It goes through one scenario with an agent and prints
// what it sees, one JSON value a line.
// node editor.mjs SDK_FOLDER AGENT PROJECT
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdk, program, project] = process.argv.slice(2);
const acp = await import(pathToFileURL(`${sdk}/dist/v1/stable/acp.js`).href);
const tell = (...what) => process.stdout.write(JSON.stringify(what) + "\n");
let onText = () => {};

function told(update) {
  switch (update.sessionUpdate) {
    case "agent_message_chunk":
    case "user_message_chunk":
      return [update.sessionUpdate, update.content.text];
    case "tool_call":
      return ["tool_call", update.title, update.kind, update.status];
    case "tool_call_update":
      return ["tool_call_update", update.status];
    case "current_mode_update":
      return ["current_mode_update", update.currentModeId];
    case "plan":
      return ["plan", ...update.entries.map((entry) => entry.status)];
    default:
      return [update.sessionUpdate];
  }
}

const app = acp
  .client({ name: "editor" })
  .onNotification("session/update", ({ params }) => {
    tell(...told(params.update));
    if (params.update.sessionUpdate === "agent_message_chunk") onText();
  })
  .onRequest("session/request_permission", ({ params }) => {
    const kinds = params.options.map((option) => option.kind);
    const option = params.options.find((option) => option.kind === "allow_always");
    tell("permission", params.toolCall.title, ...kinds);
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .onRequest("fs/read_text_file", ({ params }) => ({ content: readFileSync(params.path, "utf8") }))
  .onRequest("fs/write_text_file", ({ params }) => {
    tell("write", params.path.slice(project.length));
    writeFileSync(params.path, params.content);
    return {};
  });

async function withAgent(talk) {
  const child = spawn(program, { stdio: ["pipe", "pipe", "inherit"], cwd: "/" });
  const ended = new Promise((resolve) => child.on("exit", (code, signal) => resolve(code ?? signal)));
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  await app.connectWith(stream, async (agent) => {
    const answer = await agent.request("initialize", {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } },
      clientInfo: { name: "editor", version: "1" },
    });
    tell("initialized", answer.protocolVersion, answer.agentInfo.name, answer.agentCapabilities.loadSession);
    await talk(agent);
  });
  child.stdin.end();
  tell("ended", await ended);
}

const prompt = (agent, sessionId, text) =>
  agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });

let sessionId;
await withAgent(async (agent) => {
  const session = await agent.request("session/new", { cwd: project, mcpServers: [] });
  sessionId = session.sessionId;
  tell("new", session.modes.currentModeId, session.configOptions.map((option) => option.id));
  tell("stop", (await prompt(agent, sessionId, "write two files")).stopReason);

  const started = Date.now();
  onText = () => agent.notify("session/cancel", { sessionId });
  tell("stop", (await prompt(agent, sessionId, "count for ever")).stopReason, Date.now() - started < 5000);
  onText = () => {};

  await agent.request("session/set_mode", { sessionId, modeId: "read-only" });
  const set = await agent.request("session/set_config_option", { sessionId, configId: "mode", value: "auto" });
  tell("mode", set.configOptions.find((option) => option.id === "mode").currentValue);
  await agent.request("session/set_mode", { sessionId, modeId: "nonsense" }).catch((error) => tell("error", error.code));
  await agent.request("session/close", { sessionId });
  await prompt(agent, sessionId, "still there?").catch((error) => tell("closed", error.code < 0));
});

await withAgent(async (agent) => {
  const { sessions } = await agent.request("session/list", { cwd: project });
  tell("list", sessions.map((session) => session.sessionId === sessionId));
  await agent.request("session/load", { sessionId, cwd: project, mcpServers: [] });
  tell("loaded");
  tell("stop", (await prompt(agent, sessionId, "go on")).stopReason);
  await agent.request("session/close", { sessionId });
  await agent.request("session/resume", { sessionId, cwd: project, mcpServers: [] });
  tell("resumed");
  await agent.request("session/delete", { sessionId });
  tell("list", (await agent.request("session/list", { cwd: project })).sessions.length);
  await agent
    .request("session/load", { sessionId, cwd: project, mcpServers: [] })
    .catch((error) => tell("error", error.code));
});
