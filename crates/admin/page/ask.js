// What the page asks the member. The token of this visit goes with every request in a header of its own:
// no cookie, so no other page can ask in this visitor's name.

/** Who we are to the member: its answer to the beginning of the visit. */
export const visit = { token: null, user: null, identities: [] };

/** A refusal: `code` for the page, the message for its reader. */
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

/** Begins the visit; once, whoever asks first. */
export function begin() {
  beginning ??= request("POST", "visit", undefined, undefined, AbortSignal.timeout(BEGIN_LIMIT_MS))
    .then((response) => response.json())
    .then((answer) => Object.assign(visit, answer, { user: null, identities: [] }))
    .finally(() => {
      beginning = null;
    });
  return beginning;
}

async function request(method, what, parameters, body, signal) {
  const query = parameters ? `?${new URLSearchParams(parameters)}` : "";
  const headers = visit.token ? { "x-zoarium-visit": visit.token } : {};
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
    // Something in between has answered.
  }
  if (typeof error === "string") error = { code: "Refused", text: error };
  throw new Refused(response.status, error.code ?? "Refused", error.text ?? `the server returned the status ${response.status}`);
}

/** Sends a request. Begins another visit if the visit has expired, and reports the loss of a login. */
export async function ask(method, what, parameters, body, signal) {
  if (!visit.token) await begin();
  try {
    return await request(method, what, parameters, body, signal);
  } catch (error) {
    if (error.code !== "NoVisit") throw error;
    const user = visit.user;
    visit.token = null;
    await begin();
    document.dispatchEvent(new CustomEvent("identity"));
    if (user !== null) throw new Refused(403, "Over", "the session of this page has ended: log in again");
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

/** Changes something; the answer is JSON. */
export async function change(method, what, parameters, body) {
  return (await ask(method, what, parameters, body)).json();
}

/** The answer of a command. Numbers that a script cannot hold come as text. */
function parse(text) {
  return JSON.parse(text.replace(/( : )(-?\d{16,})(?=[,\s])/g, '$1"$2"'));
}

/** A command of the admin server, asked with the identity of this visit. */
export async function told(name, parameters) {
  const answer = parse(await (await ask("GET", name, parameters)).text());
  if (answer.error) throw new Refused(200, "Command", answer.error);
  return answer;
}

/** A command of the admin server, asked by anybody. */
export async function command(name) {
  if (!visit.token) await begin();
  let response;
  try {
    response = await fetch(`${visit.commands}/${name}`, { redirect: "error" });
  } catch {
    throw new Refused(0, "Unreachable", "the member cannot be reached");
  }
  if (!response.ok) throw new Refused(response.status, "Command", `${name}: the server returned the status ${response.status}`);
  const answer = parse(await response.text());
  if (answer.error) throw new Refused(response.status, "Command", answer.error);
  return answer;
}

/** Gives the member an identity. */
export async function logIn(user, password) {
  const answer = await change("POST", "login", undefined, JSON.stringify({ user, password }));
  visit.user = answer.user;
  visit.identities = answer.identities;
  document.dispatchEvent(new CustomEvent("identity"));
}

/** Takes it back. */
export async function logOut() {
  await change("POST", "logout");
  visit.user = null;
  visit.identities = [];
  document.dispatchEvent(new CustomEvent("identity"));
}
