// The ensemble, and the figures of this member over time, which the server keeps.

import { command, json } from "./ask.js";
import { Series, chart } from "./charts.js";
import { bytes, count, duration, h, liveFacts, liveTable, oneLine, show } from "./dom.js";
import { members } from "./members.js";

/** Ranges of the charts: the kept rows, and the number of rows that are shown. */
const RANGES = {
  minutes: { label: "4 minutes", range: "hour", length: 120 },
  hour: { label: "1 hour", range: "hour", length: 1800 },
  day: { label: "1 day", range: "day", length: 1440 },
};

/** Charts: title, unit, and the names of lines with their series. */
const CHARTS = [
  ["Requests", "/s", { reads: "reads", writes: "writes" }],
  ["Latency of reads", "ms", { p99: "read_p99", p50: "read_p50" }],
  ["Latency of writes", "ms", { p99: "write_p99", p50: "write_p50" }],
  ["Syncs of the log", "ms", { p99: "sync_p99", p50: "sync_p50" }],
  ["Propagation", "ms", { p99: "propagation_p99", p50: "propagation_p50" }],
  ["Packets", "/s", { received: "packets_received", sent: "packets_sent" }],
  ["Connections and queue", "", { connections: "connections", "in the queue": "outstanding" }],
  ["Sessions and watches", "", { sessions: "sessions", watches: "watches" }],
];

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

/** The charts of a range. */
function chartsOf({ range, length }) {
  const series = new Map();
  const all = CHARTS.map(([title, unit, lines]) => {
    const drawn = Object.entries(lines).map(([name, kept]) => {
      series.set(kept, new Series(length));
      return { name, series: series.get(kept) };
    });
    return chart(title, unit, drawn);
  });
  const box = h("div", { class: "cards" }, all.map((one) => one.card));
  let after = 0;
  let running = null;
  async function load() {
    const kept = await json("figures", { range, after });
    // A server that has restarted sends all of its rows.
    if (kept.count < after) for (const one of series.values()) one.clear();
    after = kept.count;
    for (const [name, one] of series) for (const value of kept.series[name]) one.push(value);
    for (const one of all) one.draw();
  }
  return {
    box,
    /** Adds the new rows, once at a time. */
    update() {
      running ??= load().finally(() => {
        running = null;
      });
      return running;
    },
  };
}

/** The view. */
export function overview(place) {
  const all = members();
  const own = liveFacts();
  const hot = liveTable("Busiest namespaces", ["Namespace", "Reads", "Writes", "Bytes"]);
  const none = h("p", { class: "quiet" }, "This server does not serve clients. Its figures appear when it serves.");
  const charts = h("div");
  let drawn = null;
  const choose = (name) => {
    drawn = chartsOf(RANGES[name]);
    show(charts, drawn.box);
    return drawn.update();
  };
  const range = h(
    "select",
    { onchange: (event) => choose(event.target.value).catch(() => {}) },
    Object.entries(RANGES).map(([name, { label }]) => h("option", { value: name }, label)),
  );
  show(
    place,
    h("h1", {}, "Ensemble"),
    all.section,
    h("h2", {}, "This member"),
    none,
    own.box,
    h("div", { class: "tools" }, h("label", { class: "inline" }, "Charts of the last ", range)),
    charts,
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
    async refresh(state) {
      all.update(state);
      await (drawn ? drawn.update() : choose("minutes"));
      const isServing = state.members.some((row) => row.is_own && row.is_serving);
      none.hidden = isServing;
      own.box.hidden = !isServing;
      if (!isServing) return;
      const now = await command("monitor");
      own.update(await factsOf(now));
      hot.update(namespaces(now));
    },
  };
}
