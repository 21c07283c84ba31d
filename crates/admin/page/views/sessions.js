// Sessions of this member, with their clients, ephemerals and watches.

import { html, useEffect, useState } from "../vendor/preact.js";
import { json, user } from "../lib/ask.js";
import { useRefresh } from "../lib/state.js";
import { count, duration, moment, plural } from "../lib/text.js";
import { PathLink, Table } from "../lib/ui.js";

const HEADS = ["Session", "Client", "Connected for", "Requests", "Last operation", "Latency mean / max", "Ephemerals", "Watches"];

/** List with more paths than this is closed at first. */
const OPEN_MAX = 3;

function Paths({ found: { total, paths }, one, many }) {
  const [isOpen, open] = useState(total <= OPEN_MAX);
  if (total === 0) return "–";
  return html`
    <details open=${isOpen} onToggle=${(event) => open(event.target.open)}>
      <summary>${plural(total, one, many)}</summary>
      <ul class="paths">
        ${paths.map((path) => html`<li key=${path}><${PathLink} path=${path} /></li>`)}
        ${total > paths.length && html`<li key="" class="quiet">and ${count(total - paths.length)} more</li>`}
      </ul>
    </details>
  `;
}

function cellsOf({ id, connection, ephemerals, watches }) {
  const of = (value) => (connection ? value(connection) : "–");
  return [
    html`<code>${id}</code>`,
    connection ? `${connection.address}:${connection.port}` : html`<span class="quiet">not connected to this member</span>`,
    of(({ established_ms }) => html`<span title=${moment(established_ms)}>${duration(Date.now() - established_ms)}</span>`),
    of(({ received }) => count(received)),
    of(({ last_operation }) => last_operation),
    of(({ average_latency_ms, max_latency_ms }) => `${count(average_latency_ms)} / ${count(max_latency_ms)} ms`),
    html`<${Paths} found=${ephemerals} one="ephemeral" many="ephemerals" />`,
    html`<${Paths} found=${watches} one="watch" many="watches" />`,
  ];
}

/** The view. The path contains the text that ids or addresses must contain. */
export function Sessions({ path }) {
  const [like, filter] = useState(path.slice(1));
  const [pages, turn] = useState([0]);
  const [answer, show] = useState(null);
  const skip = pages.at(-1);
  const name = user.value;
  useEffect(() => {
    filter(path.slice(1));
    turn([0]);
  }, [path]);
  useRefresh(
    async (signal) => {
      const found = await json("sessions", { skip, like: like.trim() }, signal);
      if (!signal.aborted) show(found);
    },
    [like, skip, name],
  );
  const type = (event) => {
    filter(event.target.value);
    turn([0]);
  };
  // Ids that are cut are not unique. The address and the port are.
  const keyOf = ({ id, connection }, at) => (connection ? `${id} ${connection.address}:${connection.port}` : `${id} ${at}`);
  const rows = (answer?.sessions ?? []).map((one, at) => ({ key: keyOf(one, at), cells: cellsOf(one) }));
  const about = answer && `Known sessions: ${count(answer.total)}, connected to this member: ${count(answer.connected)}.`;
  return html`
    <h1>Sessions</h1>
    <div class="tools">
      <label class="inline">
        Id or address <input type="search" placeholder="0x… or an address" value=${like} onInput=${type} />
      </label>
      <p class="quiet">${about}</p>
    </div>
    ${answer && html`<${Table} caption="Sessions" heads=${HEADS} rows=${rows} empty="no matching sessions" />`}
    <div class="actions">
      ${pages.length > 1 && html`<button type="button" onClick=${() => turn(pages.slice(0, -1))}>Back</button>`}
      ${answer?.has_more && html`<button type="button" onClick=${() => turn([...pages, skip + answer.sessions.length])}>More</button>`}
    </div>
  `;
}
