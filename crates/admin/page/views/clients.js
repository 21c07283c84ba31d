// Activity of clients, and slow requests.

import { html, useRef, useState } from "../vendor/preact.js";
import { told, visit } from "../lib/ask.js";
import { useRefresh } from "../lib/state.js";
import { bytes, count, moment, oneLine } from "../lib/text.js";
import { Choice, PathLink, Table } from "../lib/ui.js";

const ROWS = 50;

/** Groups of rows: label, field with the key, and whether every visitor may see them. */
const KINDS = {
  address: { label: "Address", key: "address", isForAll: true },
  identity: { label: "Identity", key: "identity", isForAll: false },
  connection: { label: "Connection", key: "remote_socket_address", isForAll: false },
};

const SORTS = [
  ["requests", "Requests"],
  ["received_bytes", "Bytes received"],
  ["sent_bytes", "Bytes sent"],
  ["outstanding", "Unanswered"],
  ["watches", "Watches"],
  ["ephemerals", "Ephemerals"],
  ["max_latency", "Longest wait"],
];

const HEADS = ["Connections", "Rate", "Requests", "Received", "Sent", "Unanswered", "Watches", "Ephemerals", "Longest wait"];

/** Id of a session as the log writes it. */
function session(id) {
  return `0x${BigInt.asUintN(64, BigInt(id)).toString(16)}`;
}

/** Answer of a command, or the reason of a refusal. A member that does not answer is an error of the view. */
async function orReason(asked) {
  try {
    return { answer: await asked };
  } catch (error) {
    if (error.status === 0) throw error;
    return { reason: error.message };
  }
}

function SlowRequests({ found }) {
  if (found === null) return null;
  if (found.reason) return html`<h2>Slow requests</h2><p class="quiet">${found.reason}</p>`;
  const { threshold, requests, count: total } = found.answer;
  if (threshold === null) {
    return html`
      <h2>Slow requests</h2>
      <p class="quiet">Slow requests are not listed because zoarium.slowRequestThresholdMs is not set.</p>
    `;
  }
  const rows = requests.map((one, at) => ({
    key: total - at,
    cells: [
      moment(one.at),
      `${count(one.took)} ms`,
      one.operation,
      one.path === null ? "–" : html`<${PathLink} path=${one.path} />`,
      one.remote_socket_address,
      html`<code>${session(one.session_id)}</code>`,
    ],
  }));
  const about = `Requests that took ${count(threshold)} ms or more since the start of the server: ${count(total)}. Newest first.`;
  return html`
    <h2>Slow requests</h2>
    <p class="quiet">${about}</p>
    <${Table} caption="Slow requests" heads=${["Time", "Duration", "Operation", "Znode", "Client", "Session"]} rows=${rows} empty="none yet" />
  `;
}

function Activity({ found, by }) {
  if (found === null) return null;
  if (found.reason) return html`<p class="quiet">${found.reason}</p>`;
  const { label, key } = KINDS[by];
  const rows = found.answer.clients.map((row) => ({
    key: row[key],
    cells: [
      oneLine(row[key]),
      count(row.connections),
      found.rates.has(row[key]) ? `${count(found.rates.get(row[key]))} /s` : "–",
      count(row.requests),
      bytes(row.received_bytes),
      bytes(row.sent_bytes),
      count(row.outstanding),
      count(row.watches),
      count(row.ephemerals),
      `${count(row.max_latency)} ms`,
    ],
  }));
  return html`<${Table} caption="Clients" heads=${[label, ...HEADS]} rows=${rows} empty="no requests yet" />`;
}

/** The view. */
export function Clients() {
  const [by, group] = useState("address");
  const [sort, order] = useState("requests");
  const [found, show] = useState(null);
  const [slow, showSlow] = useState(null);
  /** Requests of each row at the last answer, for rates. */
  const last = useRef({ by: null, at: 0, requests: new Map() });
  const mayAsk = visit.value.user !== null;

  function withRates(answer) {
    const { key } = KINDS[by];
    const at = performance.now();
    const before = last.current.by === by ? last.current : { at, requests: new Map() };
    const seconds = (at - before.at) / 1000;
    const known = answer.clients.filter((row) => before.requests.has(row[key]));
    const rate = (row) => Math.max(0, row.requests - before.requests.get(row[key])) / seconds;
    last.current = { by, at, requests: new Map(answer.clients.map((row) => [row[key], row.requests])) };
    return { answer, rates: new Map(known.map((row) => [row[key], rate(row)])) };
  }

  useRefresh(
    async (signal) => {
      if (mayAsk || KINDS[by].isForAll) {
        const { answer, reason } = await orReason(told("clients", { by, sort, limit: ROWS }, signal));
        if (signal.aborted) return;
        show(answer ? withRates(answer) : { reason });
      } else {
        show({ reason: "Only administrators see identities and connections. Log in as an administrator to see them." });
      }
      if (mayAsk) {
        const listed = await orReason(told("slow_requests", { limit: ROWS }, signal));
        if (!signal.aborted) showSlow(listed);
      } else showSlow({ reason: "The list contains clients and paths. Log in as an administrator to see it." });
    },
    [by, sort, visit.value.user],
  );
  const choose = (value) => {
    show(null);
    group(value);
  };
  const hidden = found?.answer?.left_out ?? 0;
  const about = `Figures of this member since its start.${hidden > 0 ? ` Rows that are not shown: ${count(hidden)}.` : ""}`;
  const kinds = Object.entries(KINDS).map(([name, kind]) => [name, kind.label]);
  return html`
    <h1>Clients</h1>
    <div class="tools">
      <${Choice} label="Group by" options=${kinds} value=${by} onchange=${choose} />
      <${Choice} label="Sort by" options=${SORTS} value=${sort} onchange=${order} />
      <p class="quiet">${about}</p>
    </div>
    <${Activity} found=${found} by=${by} />
    <${SlowRequests} found=${slow} />
  `;
}
