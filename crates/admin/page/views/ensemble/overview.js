// View of the ensemble, and of the figures of this member.

import { html, useState } from "../../vendor/preact.js";
import { command } from "../../lib/ask.js";
import { ensemble, useRefresh } from "../../lib/state.js";
import { bytes, count, duration, oneLine } from "../../lib/text.js";
import { Facts, Table } from "../../lib/ui.js";
import { Charts } from "./charts.js";
import { Events, Members } from "./members.js";

/** Number of rows of the busiest namespaces. */
const NAMESPACES = 10;

/** Number of times at which the data of this member differed from the data that its leader announced. */
function mismatches(now) {
  const found = now.digest_mismatches_count;
  if (!found) return count(found ?? 0);
  return html`<span class="level-warn">${count(found)}: the data of this member differed from a leader's data, see the log</span>`;
}

/** Facts about this member. */
function factsOf({ now, stats, zab }) {
  const inner = stats?.server_stats;
  const zxid = zab?.last_zxid ?? (inner && `0x${BigInt(inner.last_processed_zxid).toString(16)}`);
  const phase = zab?.zabstate ? [["Epoch", zab.zab_epoch], ["Phase", zab.zabstate]] : [];
  return [
    ["Role", now.server_state],
    ["Zxid", html`<span class="code">${zxid ?? "–"}</span>`],
    ...phase,
    ["Uptime", inner ? duration(inner.uptime) : "–"],
    ["Znodes", count(now.znode_count)],
    ["Data", bytes(now.approximate_data_size)],
    ["Watches", count(now.watch_count)],
    ["Sessions", count(now.global_sessions)],
    ["p99 of reads since the start", `${count(now.p99_readlatency)} ms`],
    ["p99 of writes since the start", `${count(now.p99_updatelatency)} ms`],
    ["Digest mismatches", mismatches(now)],
    ["Propagation p99 since the start", `${count(now.p99_propagation_latency)} ms`],
  ];
}

function namespacesOf(now) {
  const found = new Map();
  for (const [name, value] of Object.entries(now)) {
    const match = /^cnt_(.*)_(read|write)_per_namespace$/.exec(name);
    if (!match || match[1] === "") continue;
    const row = found.get(match[1]) ?? { read: 0, write: 0, bytes: 0 };
    row[match[2]] += value;
    row.bytes += now[`sum_${match[1]}_${match[2]}_per_namespace`] ?? 0;
    found.set(match[1], row);
  }
  const busiest = [...found.entries()].sort(([, a], [, b]) => b.read + b.write - (a.read + a.write));
  return busiest.slice(0, NAMESPACES).map(([name, row]) => ({
    key: name,
    cells: [
      html`<a href=${`#/tree/${encodeURIComponent(name)}`}>${oneLine(`/${name}`)}</a>`,
      count(row.read),
      count(row.write),
      bytes(row.bytes),
    ],
  }));
}

function Own() {
  const [figures, show] = useState(null);
  const isServing = (ensemble.value?.members ?? []).some((row) => row.is_own && row.is_serving);
  useRefresh(
    async (signal) => {
      if (!isServing) return;
      const [now, stats, zab] = await Promise.allSettled(["monitor", "server_stats", "zabstate"].map((name) => command(name, signal)));
      if (signal.aborted) return;
      if (now.status === "rejected") throw now.reason;
      show({ now: now.value, stats: stats.value, zab: zab.value });
    },
    [isServing],
  );
  const isShown = isServing && figures !== null;
  return html`
    <h2>This member</h2>
    ${!isServing && html`<p class="quiet">This server does not serve clients. Its figures appear when it serves.</p>`}
    ${isShown && html`<${Facts} pairs=${factsOf(figures)} />`}
    <h2>Busiest namespaces</h2>
    <${Table}
      caption="Busiest namespaces"
      heads=${["Namespace", "Reads", "Writes", "Bytes"]}
      rows=${isShown ? namespacesOf(figures.now) : []}
    />
    <p class="quiet">
      ${"The server has counted requests by the first part of their path since its start. It does not count requests per znode. "}
      ${"The page Clients shows the longest wait of each client, and the slow requests."}
    </p>
  `;
}

/** The view. */
export function Overview() {
  return html`
    <h1>Ensemble</h1>
    <${Members} />
    <h2>Figures over time</h2>
    <${Charts} />
    <${Own} />
    <${Events} />
  `;
}
