// The ensemble as this member sees it, and its figures over the last minutes.

import { command } from "./ask.js";
import { Series, chart } from "./charts.js";
import { bytes, count, duration, h, show, table } from "./dom.js";

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

function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

/** How often the data of this member was not the data that its leader announced. */
function mismatches(now) {
  const found = now.digest_mismatches_count;
  if (!found) return count(found ?? 0);
  return h("span", { class: "level-warn" }, `${count(found)}: the data of this member differed from a leader's data, see the log`);
}

/** What the admin commands of this member say of the ensemble. */
async function look() {
  const [stats, zab, voters, leader, observers] = await Promise.allSettled(
    ["server_stats", "zabstate", "voting_view", "leader", "observers"].map(command),
  );
  const value = (settled) => (settled.status === "fulfilled" ? settled.value : null);
  return {
    stats: value(stats),
    zab: value(zab),
    voters: Object.entries(value(voters)?.current_config ?? {}),
    leader: value(leader),
    observers: value(observers)?.observers ?? [],
  };
}

function ackOf(now, sid) {
  const p99 = now[`p99_${sid}_ack_latency`];
  return p99 === undefined ? "–" : `${count(p99)} ms`;
}

function membersOf(now, { zab, voters, leader, observers }) {
  const isLeader = now.server_state === "leader";
  const rows = voters.map(([sid, voter]) => {
    const isOwn = String(zab?.myid) === sid;
    const leads = String(leader?.leader_id) === sid;
    const role = leads ? "leader" : isOwn ? now.server_state : "voter";
    return [
      `server ${sid}`,
      h("span", { class: `chip role-${role}` }, role),
      voter.server_addresses.join(", "),
      voter.client_address ?? "–",
      isOwn ? zab.last_zxid : "–",
      isLeader && !isOwn ? ackOf(now, sid) : "–",
      isOwn ? "this member" : "",
    ];
  });
  const watching = observers.map((observer) => [
    `server ${observer.sid}`,
    h("span", { class: "chip role-observer" }, "observer"),
    observer.remote_socket_address.replace(/^\//, ""),
    "–",
    `0x${BigInt(observer.last_zxid).toString(16)} (sent)`,
    `waiting packets: ${count(observer.queued_packets)}`,
    "",
  ]);
  return table(
    "Members",
    ["Member", "Role", "Quorum address", "Client address", "Zxid", "Lag", ""],
    [...rows, ...watching],
  );
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
  return rows.map(([name, row]) => [
    h("a", { href: `#/tree/${encodeURIComponent(name)}` }, `/${name}`),
    count(row.read),
    count(row.write),
    bytes(row.bytes),
  ]);
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
  const own = h("div");
  const members = h("div");
  const hot = h("div");
  show(
    place,
    h("h1", {}, "Ensemble"),
    own,
    h("div", { class: "cards" }, throughput.card, latency.card, packets.card, queue.card),
    members,
    hot,
  );
  return {
    async refresh(now) {
      for (const one of [throughput, latency, packets, queue]) one.draw();
      if (!now) return;
      const seen = await look();
      const inner = seen.stats?.server_stats;
      const zxid = seen.zab?.last_zxid ?? (inner && `0x${BigInt(inner.last_processed_zxid).toString(16)}`);
      show(
        own,
        facts([
          ["Role", now.server_state],
          ["Zxid", h("code", {}, zxid ?? "–")],
          ...(seen.zab?.zabstate
            ? [
                ["Epoch", seen.zab.zab_epoch],
                ["Phase", seen.zab.zabstate],
              ]
            : []),
          ["Uptime", inner ? duration(inner.uptime) : "–"],
          ["Znodes", count(now.znode_count)],
          ["Data", bytes(now.approximate_data_size)],
          ["Watches", count(now.watch_count)],
          ["Sessions", count(now.global_sessions)],
          ["p99 of reads", `${count(now.p99_readlatency)} ms`],
          ["p99 of writes", `${count(now.p99_updatelatency)} ms`],
          ["Digest mismatches", mismatches(now)],
          ["Propagation p99", `${count(now.p99_propagation_latency)} ms`],
        ]),
      );
      const isAlone = now.server_state === "standalone";
      show(
        members,
        h("h2", {}, "Members"),
        isAlone
          ? h("p", { class: "quiet" }, "This is a standalone server.")
          : membersOf(now, seen),
        !isAlone &&
          h(
            "p",
            { class: "quiet" },
            "Zxid: the last zxid of this member, and of the observers to which it sends transactions. Other members show their values in their own consoles. ",
            "Lag (only on the leader): p99 of the time until a follower acknowledges a proposal.",
          ),
      );
      show(
        hot,
        h("h2", {}, "Busiest namespaces"),
        table("Busiest namespaces", ["Namespace", "Reads", "Writes", "Bytes"], namespaces(now), "no requests yet"),
        h(
          "p",
          { class: "quiet" },
          "The server has counted requests by the first part of their path since its start. It does not count requests per znode. ",
          "The page Clients shows the longest wait of each client.",
        ),
      );
    },
  };
}
