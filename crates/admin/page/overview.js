// The ensemble as this member sees it, and its figures over the last minutes.

import { command } from "./ask.js";
import { Series, chart } from "./charts.js";
import { bytes, count, duration, h, liveFacts, liveTable, oneLine, show } from "./dom.js";
import { members } from "./members.js";

/** One sample every two seconds, for four minutes. */
const LENGTH = 120;

const series = Object.fromEntries(
  ["received", "sent", "read", "write", "readMs", "writeMs", "outstanding", "connections"].map((name) => [
    name,
    new Series(LENGTH),
  ]),
);
let before = null;

function rate(now, name, seconds) {
  if (!before || seconds <= 0) return null;
  // Somebody may have reset the figures.
  return Math.max(0, (now[name] - before[name]) / seconds);
}

function mean(now, name) {
  if (!before) return null;
  const requests = now[`cnt_${name}`] - before[`cnt_${name}`];
  if (requests <= 0) return 0;
  return Math.max(0, (now[`sum_${name}`] - before[`sum_${name}`]) / requests);
}

/** Takes a sample for the charts; whichever view is shown. */
export async function sample() {
  const at = performance.now();
  const now = await command("monitor");
  const seconds = before ? (at - before.at) / 1000 : 0;
  series.received.push(rate(now, "packets_received", seconds));
  series.sent.push(rate(now, "packets_sent", seconds));
  series.read.push(rate(now, "cnt_readlatency", seconds));
  series.write.push(rate(now, "cnt_updatelatency", seconds));
  series.readMs.push(mean(now, "readlatency"));
  series.writeMs.push(mean(now, "updatelatency"));
  series.outstanding.push(now.outstanding_requests);
  series.connections.push(now.num_alive_connections);
  before = { ...now, at };
  return now;
}

/** A gap: there was no answer. */
export function sampleMissed() {
  for (const one of Object.values(series)) one.push(null);
  before = null;
}

/** How often the data of this member was not the data that its leader announced. */
function mismatches(now) {
  const found = now.digest_mismatches_count;
  if (!found) return count(found ?? 0);
  return { text: `${count(found)}: the data of this member differed from a leader's data, see the log`, class: "level-warn" };
}

/** Facts about this member, as `[name, value]`. */
async function factsOf(now) {
  const [stats, zab] = await Promise.allSettled(["server_stats", "zabstate"].map(command));
  const inner = stats.value?.server_stats;
  const zxid = zab.value?.last_zxid ?? (inner && `0x${BigInt(inner.last_processed_zxid).toString(16)}`);
  const phase = zab.value?.zabstate ? [["Epoch", zab.value.zab_epoch], ["Phase", zab.value.zabstate]] : [];
  return [
    ["Role", now.server_state],
    ["Zxid", { text: zxid ?? "–", class: "code" }],
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

function namespaces(now) {
  const found = new Map();
  for (const [name, value] of Object.entries(now)) {
    const match = /^cnt_(.*)_(read|write)_per_namespace$/.exec(name);
    if (!match || match[1] === "") continue;
    const row = found.get(match[1]) ?? { read: 0, write: 0, bytes: 0 };
    row[match[2]] += value;
    row.bytes += now[`sum_${match[1]}_${match[2]}_per_namespace`] ?? 0;
    found.set(match[1], row);
  }
  const rows = [...found.entries()].sort(([, a], [, b]) => b.read + b.write - (a.read + a.write)).slice(0, 10);
  return rows.map(([name, row]) => ({
    key: name,
    cells: [
      { text: oneLine(`/${name}`), href: `#/tree/${encodeURIComponent(name)}` },
      count(row.read),
      count(row.write),
      bytes(row.bytes),
    ],
  }));
}

/** The view. */
export function overview(place) {
  const throughput = chart("Requests", "/s", [
    { name: "reads", series: series.read },
    { name: "writes", series: series.write },
  ]);
  const latency = chart("Mean latency", "ms", [
    { name: "reads", series: series.readMs },
    { name: "writes", series: series.writeMs },
  ]);
  const packets = chart("Packets", "/s", [
    { name: "received", series: series.received },
    { name: "sent", series: series.sent },
  ]);
  const queue = chart("Connections and queue", "", [
    { name: "connections", series: series.connections },
    { name: "in the queue", series: series.outstanding },
  ]);
  const all = members();
  const own = liveFacts();
  const hot = liveTable("Busiest namespaces", ["Namespace", "Reads", "Writes", "Bytes"]);
  const none = h("p", { class: "quiet" }, "This server does not serve clients, so it has no figures.");
  show(
    place,
    h("h1", {}, "Ensemble"),
    all.section,
    h("h2", {}, "This member"),
    none,
    own.box,
    h("div", { class: "cards" }, throughput.card, latency.card, packets.card, queue.card),
    h("h2", {}, "Busiest namespaces"),
    hot.box,
    h(
      "p",
      { class: "quiet" },
      "The server has counted requests by the first part of their path since its start. It does not count requests per znode. ",
      "The page Clients shows the longest wait of each client, and the slow requests.",
    ),
  );
  return {
    async refresh({ state, figures }) {
      for (const one of [throughput, latency, packets, queue]) one.draw();
      all.update(state);
      none.hidden = Boolean(figures);
      own.box.hidden = !figures;
      if (!figures) return;
      own.update(await factsOf(figures));
      hot.update(namespaces(figures));
    },
  };
}
