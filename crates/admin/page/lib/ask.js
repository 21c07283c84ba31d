// Requests to the member. Each request contains the token of this visit in a separate header, and the page does not
// use cookies. Therefore a page of another site cannot send requests in the name of this visitor.

import { computed, signal } from "../vendor/preact.js";

/** Answer of the member to the beginning of the visit, and the identity of the visitor. */
export const visit = signal({ token: null, user: null, identities: [] });

/** Identity of the visitor. Views load their data again when it changes. */
export const user = computed(() => visit.value.user);

/** Refusal of a request: `code` for the page, and a message for its reader. */
export class Refused extends Error {
  constructor(status, code, text) {
    super(text);
    this.status = status;
    this.code = code;
  }
}

/** Time limit for the beginning of a visit, so that a hanging member does not look alive. */
const BEGIN_LIMIT_MS = 5000;

let beginning = null;

/** Begins a visit. Concurrent callers share one request. */
export function begin() {
  beginning ??= request("POST", "visit", undefined, undefined, AbortSignal.timeout(BEGIN_LIMIT_MS))
    .then((response) => response.json())
    .then((answer) => {
      visit.value = answer;
    })
    .finally(() => {
      beginning = null;
    });
  return beginning;
}

async function request(method, what, parameters, body, signal) {
  const query = parameters ? `?${new URLSearchParams(parameters)}` : "";
  const { token } = visit.peek();
  const headers = token ? { "x-zoarium-visit": token } : {};
  let response;
  try {
    response = await fetch(`/console/${what}${query}`, { method, headers, body, signal, redirect: "error" });
  } catch {
    throw new Refused(0, "Unreachable", "the member cannot be reached");
  }
  if (response.ok) return response;
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    // A proxy may have sent the response.
  }
  if (typeof error === "string") error = { code: "Refused", text: error };
  throw new Refused(response.status, error.code ?? "Refused", error.text ?? `the server returned the status ${response.status}`);
}

/** Sends a request. Begins another visit if the visit has expired, and reports the loss of a login. */
export async function ask(method, what, parameters, body, signal) {
  if (!visit.peek().token) await begin();
  try {
    return await request(method, what, parameters, body, signal);
  } catch (error) {
    if (error.code !== "NoVisit") throw error;
    const before = visit.peek().user;
    visit.value = { ...visit.peek(), token: null };
    await begin();
    if (before !== null && before !== visit.peek().user) throw new Refused(403, "Over", "the session of this page has ended: log in again");
    return request(method, what, parameters, body, signal);
  }
}

/** Requests JSON. The signal can end the request. */
export async function json(what, parameters, signal) {
  const response = await ask("GET", what, parameters, undefined, signal);
  try {
    return await response.json();
  } catch {
    throw new Refused(0, "Unreachable", "the answer of the member is incomplete");
  }
}

/** Requests lines of JSON, and yields each when it arrives. */
export async function* lines(what, parameters, signal) {
  const response = await ask("GET", what, parameters, undefined, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n");
      rest = parts.pop();
      for (const line of parts) if (line !== "") yield JSON.parse(line);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Changes something. The answer is JSON. */
export async function change(method, what, parameters, body) {
  return (await ask(method, what, parameters, body)).json();
}

/** Parses the answer of a command. Numbers that a script cannot represent become text. */
function parse(text) {
  return JSON.parse(text.replace(/( : )(-?\d{16,})(?=[,\s])/g, '$1"$2"'));
}

/** Runs a command of the admin server with the identity of this visit. */
export async function told(name, parameters, signal) {
  const answer = parse(await (await ask("GET", name, parameters, undefined, signal)).text());
  if (answer.error) throw new Refused(200, "Command", answer.error);
  return answer;
}

/** Runs a command of the admin server without an identity. */
export async function command(name, signal) {
  if (!visit.peek().token) await begin();
  let response;
  try {
    response = await fetch(`${visit.peek().commands}/${name}`, { redirect: "error", signal });
  } catch {
    throw new Refused(0, "Unreachable", "the member cannot be reached");
  }
  if (!response.ok) throw new Refused(response.status, "Command", `${name}: the server returned the status ${response.status}`);
  const answer = parse(await response.text());
  if (answer.error) throw new Refused(response.status, "Command", answer.error);
  return answer;
}

/** Sets the identity of this visit. `form` contains the scheme, the user and the password. */
export async function logIn(form) {
  const answer = await change("POST", "login", undefined, JSON.stringify(form));
  visit.value = { ...visit.peek(), user: answer.user, identities: answer.identities };
}

/** Removes the identity of this visit. */
export async function logOut() {
  await change("POST", "logout");
  visit.value = { ...visit.peek(), user: null, identities: [] };
}

/** Fetches all data of a znode. Pieces of two versions are never combined. */
export async function wholeData(path, stat) {
  const pieces = [];
  let length = 0;
  do {
    const answer = await ask("GET", "data", { path, offset: length });
    if (answer.headers.get("x-znode-mzxid") !== stat.mzxid) throw new Error("the znode has changed meanwhile: reload it");
    const piece = new Uint8Array(await answer.arrayBuffer());
    if (piece.length === 0) break;
    pieces.push(piece);
    length += piece.length;
  } while (length < stat.data_length);
  const all = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}
