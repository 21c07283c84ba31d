// The verdict on the ensemble, on every page. The server computes it from all members.

import { json } from "./ask.js";
import { clock, duration, h, show } from "./dom.js";

/** Time limit for the answer of this page's member. A member that hangs does not answer. */
const LIMIT_MS = 2500;
/** Age in ms above which figures are shown as old. */
const OLD_MS = 6000;

const place = document.getElementById("health");
const verdict = document.getElementById("verdict");
const age = document.getElementById("age");
const role = document.getElementById("role");

/** The last state of the ensemble. */
let state = null;
/** Difference between the clocks of this browser and of the member, in ms. */
let shift = 0;
/** Time of the first request without an answer since the last answer. */
let lostAt = null;

/** A time of the member's clock, on this browser's clock. */
export function local(ms) {
  return ms === null || ms === undefined ? null : ms + shift;
}

/** The name of a member. */
export function nameOf(row) {
  return row.member === null ? "this server" : `server ${row.member}`;
}

/** The address of this view in the console of another member. */
export function consoleOf(row) {
  if (!row.admin || !/^[\w.:[\]-]+$/.test(row.admin)) return null;
  return `${location.protocol}//${row.admin}/${location.hash}`;
}

/** Age of the last state, in ms. */
function ageOf() {
  return state === null ? Infinity : Date.now() - local(state.now);
}

function faultText(fault) {
  const since = fault.since ? ` since ${clock(local(fault.since))}` : "";
  const seen = fault.seen && fault.seen < fault.since ? ` (last seen ${clock(local(fault.seen))})` : "";
  return `${fault.text}${since}${seen}`;
}

function line({ summary, faults, outlook }) {
  if (faults.length === 0) return [summary, outlook].filter(Boolean).join(", ");
  return [summary, ...faults.map(faultText), outlook].filter(Boolean).join("; ");
}

let shown = "";

/** Shows a title and parts. Unchanged text is not touched, because a screen reader would repeat it. */
function tell(kind, title, text, ...more) {
  const key = [kind, title, text, ...more.map((one) => one.textContent ?? one)].join("\n");
  if (key === shown) return;
  shown = key;
  place.className = `health health-${kind}`;
  show(verdict, h("b", {}, title), ` (${text}) `, ...more.flatMap((one) => [one, " "]));
}

function tellLost(error) {
  const others = (state?.members ?? []).filter((row) => !row.is_own && consoleOf(row));
  const links = others.map((row) => h("a", { href: consoleOf(row) }, `Console of ${nameOf(row)}`));
  const isSilent = error.status === 0;
  const text = isSilent ? `this server has not answered since ${clock(lostAt)}` : error.message;
  tell("lost", isSilent ? "No answer" : "No figures", text, ...links);
  role.textContent = "no answer";
  role.className = "chip role-lost";
}

function tellState() {
  const { health, members } = state;
  const own = members.find((row) => row.is_own);
  const details = h("a", { href: "#/ensemble" }, "Details");
  tell(health.verdict, health.title, line(health), ...[health.remedy, details].filter(Boolean));
  role.textContent = own?.state ?? "loading";
  role.className = `chip role-${own?.state ?? "loading"}`;
}

/** Shows the age of figures that are not current. */
export function tellAge() {
  const isOld = lostAt !== null || (state !== null && ageOf() > OLD_MS);
  document.body.classList.toggle("stale", isOld);
  age.hidden = !isOld;
  const text = state === null ? "The first figures have not arrived yet." : `All figures on this page are ${duration(ageOf())} old.`;
  if (isOld && age.textContent !== text) age.textContent = text;
}

/** Requests the state of the ensemble. Returns null if the member does not answer. */
export async function look() {
  try {
    const answer = await json("ensemble", undefined, AbortSignal.timeout(LIMIT_MS));
    state = answer.now === undefined ? { ...answer, now: Date.now(), age: 0 } : answer;
    shift = Date.now() - (state.now + state.age);
    lostAt = null;
    tellState();
    return state;
  } catch (error) {
    lostAt ??= Date.now();
    tellLost(error);
    return null;
  } finally {
    tellAge();
  }
}
