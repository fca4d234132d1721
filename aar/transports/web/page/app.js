"use strict";
// One chat: what happens comes as server-sent events, read with fetch so that the key goes in a header.
const $ = (id) => document.getElementById(id);
const talk = $("talk");
let key = sessionStorage.getItem("aar-key") || "";
let session = null; // {id, last, stop}
let live = null, thought = null; // what the model is saying
const calls = new Map(), questions = new Map();

if (location.hash.length > 1) {
  key = decodeURIComponent(location.hash.slice(1));
  sessionStorage.setItem("aar-key", key);
  history.replaceState(null, "", location.pathname + location.search);
}

class Refused extends Error {
  constructor(status, text) { super(text); this.status = status; }
}

async function ask(path, body) {
  const headers = { Authorization: "Bearer " + key };
  const init = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, init);
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, data.error || answer.statusText);
  return data;
}

function add(kind, text = "", tag = "div") {
  const atEnd = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 60;
  const made = document.createElement(tag);
  made.className = kind;
  made.textContent = text;
  talk.append(made);
  if (atEnd) talk.scrollTop = talk.scrollHeight;
  return made;
}

const HIDDEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0d\uffa0]/gu;

function visible(text) { // what a person decides on must not be reordered or hidden
  return text.replace(HIDDEN, (one) => `\\u{${one.codePointAt(0).toString(16)}}`);
}

function fail(error) {
  if (error.status === 401) { $("door").hidden = false; $("say").hidden = true; $("key").focus(); }
  else add("note failed", error.message || String(error));
}

// --- what happens ---

const show = {
  status(data) {
    if (data.after === 0) clear();
    run(Boolean(data.turn_id), data.state);
  },
  turn_started() { run(true, "running"); },
  turn_ended(event) { run(false, event.stop); drop(); endQuestions(); },
  user_message(event) { if (event.data.kind !== "internal") add("user", event.data.said || event.content || "[media]"); },
  stream_chunk(event) {
    if (event.reasoning_text) (thought ??= add("thought")).textContent += event.reasoning_text;
    if (event.text) (live ??= add("answer")).textContent += event.text;
    talk.scrollTop = talk.scrollHeight;
  },
  step_restarted() { drop(); },
  reasoning(event) { if (event.content) (thought ??= add("thought")).textContent = event.content; thought = null; },
  assistant_message(event) {
    if (event.content) (live ??= add("answer")).textContent = event.content;
    live = thought = null;
  },
  tool_call(event) {
    const made = add("tool", "", "details"), head = document.createElement("summary");
    head.textContent = event.tool_name + " …";
    const given = document.createElement("pre");
    given.textContent = JSON.stringify(event.arguments, null, 1);
    made.append(head, given);
    calls.set(event.tool_call_id, { made, head, name: event.tool_name, out: null });
  },
  tool_started(event) { const call = calls.get(event.tool_call_id); if (call) call.head.textContent = call.name + " runs"; },
  tool_output(event) { const call = calls.get(event.tool_call_id); if (call) output(call).textContent += event.text; },
  tool_result(event) {
    const call = calls.get(event.tool_call_id);
    if (!call) return;
    output(call).textContent = event.output;
    call.head.textContent = call.name + (event.is_error ? " failed" : " done");
    if (event.is_error) call.made.classList.add("failed");
    calls.delete(event.tool_call_id);
  },
  approval_requested(event) {
    const made = add("question", "", "section"), what = document.createElement("pre");
    const title = document.createElement("strong");
    title.textContent = visible(`May ${event.tool_name} run? ${event.reason || ""}`);
    what.textContent = visible(JSON.stringify(event.arguments, null, 1));
    made.append(title, what);
    for (const [decision, label] of [["allow", "Allow"], ["allow_always", "Always"], ["deny", "Deny"]]) {
      const button = document.createElement("button");
      button.textContent = label;
      button.onclick = () => ask(`sessions/${session.id}/decide`, { tool_call_id: event.tool_call_id, decision }).catch(fail);
      made.append(button);
    }
    made.outlives = Boolean(event.data.aside);
    questions.set(event.tool_call_id, made);
    talk.scrollTop = talk.scrollHeight;
  },
  approval_resolved(event) { settle(event.tool_call_id, `${event.decision} (${event.by})`); },
  error(event) { add("note failed", event.message); },
  notice(event) { add("note", event.text); },
};

function output(call) {
  if (!call.out) call.made.append(call.out = document.createElement("pre"));
  return call.out;
}

function settle(id, how) {
  const made = questions.get(id);
  if (!made) return;
  for (const button of made.querySelectorAll("button")) button.remove();
  made.append(how);
  questions.delete(id);
}

function endQuestions() { // those about commands beside the conversation outlive the turn
  for (const [id, made] of [...questions]) if (!made.outlives) settle(id, "over");
}

function drop() { // fragments whose whole does not come
  if (live) live.remove();
  if (thought) thought.remove();
  live = thought = null;
}

function clear() { talk.textContent = ""; live = thought = null; calls.clear(); questions.clear(); }

function run(is, state) { $("cancel").disabled = !is; $("state").textContent = state || ""; }

// --- the stream ---

async function follow(mine) {
  for (let wait = 500; session === mine; wait = Math.min(wait * 2, 10000)) {
    try {
      const headers = { Authorization: "Bearer " + key };
      if (mine.last !== null) headers["Last-Event-ID"] = mine.last;
      const answer = await fetch(`sessions/${mine.id}/events?answers=1`, { headers, signal: mine.stop.signal });
      if (!answer.ok) throw new Refused(answer.status, (await answer.json()).error);
      wait = 500;
      await take(mine, answer.body.pipeThrough(new TextDecoderStream()).getReader());
    } catch (error) {
      if (mine.stop.signal.aborted) return;
      if (error instanceof Refused) return fail(error);
    }
    $("state").textContent = "the connection is lost; trying again";
    await new Promise((go) => setTimeout(go, wait));
  }
}

async function take(mine, reader) {
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done || session !== mine) return;
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      let type = "", data = "", id = null;
      for (const line of frame.split("\n")) {
        if (line.startsWith("event: ")) type = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
        else if (line.startsWith("id: ")) id = line.slice(4);
      }
      if (id !== null) mine.last = id;
      if (data && Object.hasOwn(show, type)) show[type](JSON.parse(data));
    }
  }
}

function open(id) {
  if (session) session.stop.abort();
  clear();
  run(false);
  session = id ? { id, last: null, stop: new AbortController() } : null;
  if (session) follow(session);
}

async function list(chosen) {
  const { sessions } = await ask("sessions?details=1");
  const options = sessions.map((one) => new Option(`${one.title || one.session_id} (${one.cwd})`, one.session_id));
  if (chosen && !sessions.some((one) => one.session_id === chosen)) options.unshift(new Option(chosen, chosen));
  $("sessions").replaceChildren(new Option("New session", ""), ...options);
  $("sessions").value = chosen || "";
}

// --- what the person does ---

$("sessions").onchange = () => open($("sessions").value);
$("cancel").onclick = () => ask(`sessions/${session.id}/cancel`, {}).catch(fail);
$("door").onsubmit = (event) => {
  event.preventDefault();
  key = $("key").value.trim();
  sessionStorage.setItem("aar-key", key);
  location.reload();
};
$("text").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); $("say").requestSubmit(); }
};
$("say").onsubmit = async (event) => {
  event.preventDefault();
  const prompt = $("text").value.trim();
  if (!prompt) return;
  try {
    if (!session) {
      const { session_id } = await ask("sessions", {});
      open(session_id);
      await list(session_id);
    }
    await ask(`sessions/${session.id}/prompt`, { prompt });
    $("text").value = "";
  } catch (error) { fail(error); }
};

list("").catch(fail);
