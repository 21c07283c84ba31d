// Changes of one znode, with the differences of each and the way back to its data.

import { html, useState } from "../../vendor/preact.js";
import { json, user } from "../../lib/ask.js";
import { useRefresh } from "../../lib/state.js";
import { bytes, count, linkTo, moment } from "../../lib/text.js";
import { Button, Table } from "../../lib/ui.js";
import { useClients } from "./clients.js";
import { Compared, EditWith } from "./found.js";

/** Changes in a page. */
const CHANGES = 50;

const HEADS = ["Time", "Change", "Version", "Size", "Client"];

function fetchPage(path, parameters, signal) {
  return json("history/changes", { path, recursive: false, diff: true, limit: CHANGES, ...parameters }, signal);
}

function sizeOf({ data }) {
  return data === null ? "–" : bytes(data.size);
}

const EMPTY = { changes: [], next: null, about: "Loading…", loadedFor: null };

/** Changes with the new ones of a page, newest first. */
function withNew(changes, page) {
  const known = new Set(changes.map(({ position }) => position));
  return [...page.filter(({ position }) => !known.has(position)), ...changes];
}

/** List of the changes, the newest first. A change of `stat` reloads the list. */
export function Past({ path, stat }) {
  const [state, show] = useState(EMPTY);
  const identity = user.value;
  const present = `${stat.mzxid} ${stat.aversion} ${identity}`;
  useRefresh(
    async (signal) => {
      const newest = state.changes[0]?.zxid;
      // The history records a change shortly after the znode shows it.
      const isComplete = newest !== undefined && BigInt(newest) >= BigInt(stat.mzxid);
      if (state.loadedFor === present && isComplete) return;
      const old = state.loadedFor?.endsWith(` ${identity}`) ? state : EMPTY;
      try {
        const { results, next } = await fetchPage(path, {}, signal);
        if (signal.aborted) return;
        const changes = withNew(old.changes, results);
        const about = changes.length === 0 ? "No changes of this znode are recorded." : null;
        show({ changes, next: old.changes.length > 0 ? old.next : next, about, loadedFor: present });
      } catch (error) {
        if (!signal.aborted) show({ ...EMPTY, about: error.message });
      }
    },
    [path, present],
  );
  const { describe, reasons } = useClients(state.changes);
  const older = async () => {
    const { results, next } = await fetchPage(path, { after: state.next });
    show((old) => ({ ...old, changes: [...old.changes, ...results], next }));
  };
  const rows = state.changes.map((change) => ({
    key: change.position,
    cells: [
      moment(change.time_ms),
      html`
        <${Compared} one=${{ ...change, kind: change.operation }}>
          <${EditWith} path=${path} data=${change.after?.data}>Edit with this version<//>
        <//>
      `,
      count(change.version),
      sizeOf(change),
      describe(change),
    ],
  }));
  return html`
    <h2>Changes of this znode, newest first</h2>
    ${state.about && html`<p class="quiet" role="status">${state.about}</p>`}
    ${reasons.map((reason) => html`<p class="quiet">Clients that other members serve are missing: ${reason}.</p>`)}
    ${rows.length > 0 && html`<${Table} caption="Changes of this znode" heads=${HEADS} rows=${rows} />`}
    <div class="actions">
      ${state.next && html`<${Button} act=${older}>Load older changes<//>`}
      <a href=${linkTo(path, "history")}>Changes below this znode</a>
    </div>
  `;
}
