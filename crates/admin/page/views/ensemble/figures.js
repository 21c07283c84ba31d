// Kept figures of one or all members as data for charts. The servers keep them, and the page adds new rows.

import { json } from "../../lib/ask.js";

/** Ranges of the charts: the kept rows, and the number of rows that are shown. */
export const RANGES = {
  minutes: { label: "4 minutes", range: "hour", length: 120 },
  hour: { label: "1 hour", range: "hour", length: 1800 },
  day: { label: "1 day", range: "day", length: 1440 },
};

/** Charts: title, unit, and the names of lines with their series. The first line represents a member. */
export const CHARTS = [
  ["Requests", "/s", { reads: "reads", writes: "writes" }],
  ["Latency of reads", "ms", { p99: "read_p99", p50: "read_p50" }],
  ["Latency of writes", "ms", { p99: "write_p99", p50: "write_p50" }],
  ["Syncs of the log", "ms", { p99: "sync_p99", p50: "sync_p50" }],
  ["Propagation", "ms", { p99: "propagation_p99", p50: "propagation_p50" }],
  ["Packets", "/s", { received: "packets_received", sent: "packets_sent" }],
  ["Connections and queue", "", { connections: "connections", "in the queue": "outstanding" }],
  ["Sessions and watches", "", { sessions: "sessions", watches: "watches" }],
];

/** Series of all charts. */
const SERIES = CHARTS.flatMap(([, , lines]) => Object.values(lines));

/** Rows of one member in one range. The newest row is the last one. */
export class Kept {
  constructor({ range, length }, member) {
    this.range = range;
    this.length = length;
    this.member = member;
    this.after = 0;
    this.stepMs = 2000;
    this.end = Date.now();
    this.series = new Map();
  }

  /** Requests the rows after the last known one. */
  async load(signal) {
    const member = this.member === null ? {} : { member: this.member };
    const query = { range: this.range, after: this.after, series: SERIES.join(","), ...member };
    const kept = await json("figures", query, signal);
    // A server that has restarted sends all its rows.
    if (kept.count < this.after) this.series.clear();
    this.after = kept.count;
    this.stepMs = kept.step_ms;
    this.end = Date.now();
    for (const [name, values] of Object.entries(kept.series)) {
      const all = [...(this.series.get(name) ?? []), ...values];
      this.series.set(name, all.slice(-this.length));
    }
  }

  /** Values of a series, with null before the first row. */
  values(name) {
    const known = this.series.get(name) ?? [];
    return [...Array(this.length - known.length).fill(null), ...known];
  }

  /** Times of the rows, in seconds since 1970. */
  times() {
    const last = Math.floor(this.end / this.stepMs) * this.stepMs;
    return Array.from({ length: this.length }, (_, at) => (last - (this.length - 1 - at) * this.stepMs) / 1000);
  }
}
