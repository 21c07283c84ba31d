// Verdict about the ensemble, on every page. The server computes it from all members.

import { computed, html } from "../vendor/preact.js";
import { consoleOf, ensemble, local, lost, nameOf, now } from "../lib/state.js";
import { clock, duration } from "../lib/text.js";

/** Age in ms above which figures are shown as old. */
const OLD_MS = 6000;

/** Age of the last state, in ms. */
const ageOf = (state) => (state === null ? Infinity : now.value - local(state.now));

/** Whether the figures on the page are not current. */
export const isOld = computed(() => lost.value !== null || (ensemble.value !== null && ageOf(ensemble.value) > OLD_MS));

function faultText(fault) {
  const since = fault.since ? ` since ${clock(local(fault.since))}` : "";
  const seen = fault.seen && fault.seen < fault.since ? ` (last seen ${clock(local(fault.seen))})` : "";
  return `${fault.text}${since}${seen}`;
}

function line({ summary, faults, outlook }) {
  if (faults.length === 0) return [summary, outlook].filter(Boolean).join(", ");
  return [summary, ...faults.map(faultText), outlook].filter(Boolean).join("; ");
}

/** Role of this member, for the header. */
export function Role() {
  const state = ensemble.value;
  const own = state?.members.find((row) => row.is_own);
  const name = lost.value ? "no answer" : state ? (own?.state ?? "loading") : "";
  const kind = lost.value ? "lost" : (own?.state ?? "loading");
  return html`<span id="role" class="chip role-${kind}">${name}</span>`;
}

function Lost({ error, at }) {
  const others = (ensemble.value?.members ?? []).filter((row) => !row.is_own && consoleOf(row));
  const isSilent = error.status === 0;
  const text = isSilent ? `this server has not answered since ${clock(at)}` : error.message;
  const links = others.map((row) => html`<a href=${consoleOf(row)}>Console of ${nameOf(row)}</a> `);
  return html`<b>${isSilent ? "No answer" : "No figures"}</b> (${text}) ${links}`;
}

function Verdict({ health }) {
  return html`<b>${health.title}</b> (${line(health)}) ${health.remedy ?? ""} <a href="#/ensemble">Details</a>`;
}

/** Age of figures that are not current. */
function Age() {
  if (!isOld.value) return html`<p id="age" hidden></p>`;
  const state = ensemble.value;
  if (state === null) return html`<p id="age" class="quiet">The first figures have not arrived yet.</p>`;
  return html`<p id="age" class="quiet">All figures on this page are ${duration(ageOf(state))} old.</p>`;
}

/** Line about health. */
export function Health() {
  const state = ensemble.value;
  const kind = lost.value ? "lost" : state?.health.verdict;
  return html`
    <section id="health" class=${kind ? `health health-${kind}` : "health"} aria-label="Health">
      <p id="verdict" role="status">
        ${lost.value ? html`<${Lost} ...${lost.value} />` : state && html`<${Verdict} health=${state.health} />`}
      </p>
      <${Age} />
    </section>
  `;
}
