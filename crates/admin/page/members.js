// All members of the ensemble, and the events that this member observed.

import { clock, count, duration, h, liveTable, moment, oneLine, show } from "./dom.js";
import { consoleOf, local, nameOf } from "./health.js";

const HEADS = [
  "Member",
  "State",
  "Zxid",
  "Lag",
  "Connections",
  "Sessions",
  "Watches",
  "Mean disk sync",
  "Digest",
  "Version",
  "Serving since",
  "Console",
];

/** The reason why a figure of a member is missing. */
function reason(row, other) {
  if (!row.seen) return row.problem ?? "not queried yet";
  if (!row.is_serving && !row.problem) return "the server does not serve clients";
  return other ?? "the server does not report it";
}

function figure(row, value, other) {
  if (value !== null && value !== undefined) return value;
  const why = reason(row, other);
  return [{ text: "–", title: why }, { text: ` (${why})`, class: "hidden" }];
}

function stateOf(row) {
  const parts = [
    { text: row.state, class: `chip role-${row.state}` },
    ` since ${clock(local(row.since))}`,
  ];
  if (row.problem) parts.push({ text: ` · ${oneLine(row.problem)}`, class: "wrong" });
  if (row.problem && row.seen) {
    parts.push({ text: ` · figures of ${clock(local(row.seen))}, ${duration(Date.now() - local(row.seen))} old`, class: "quiet" });
  }
  if (row.seen && !row.is_serving) parts.push({ text: " · no figures: the server does not serve clients", class: "quiet" });
  return parts;
}

function lagOf(row) {
  if (row.lag === null || row.lag_ms === null) return figure(row, null, "it is not in the epoch of a known leader");
  const late = row.lag_ms > 0 ? `, ${duration(row.lag_ms)}` : "";
  return `${row.lag === 1 ? "1 transaction" : `${count(row.lag)} transactions`}${late}`;
}

/** Digests of two members after the same transaction must be equal. */
function digestOf(row, all) {
  if (!row.digest) return figure(row, null, "no digest is recorded yet");
  const differs = all.some((other) => other.digest_zxid === row.digest_zxid && other.digest !== row.digest);
  const parts = [{ text: row.digest, class: "code" }, { text: ` after ${row.digest_zxid}`, class: "quiet" }];
  return differs ? [...parts, { text: " differs from another member", class: "wrong" }] : parts;
}

function cellsOf(row, all) {
  const duty = row.votes === false ? " · observer" : "";
  const link = consoleOf(row);
  const number = (value) => figure(row, value === null ? null : count(value));
  return [
    [nameOf(row), { text: ` ${row.address ?? ""}${duty}`, class: "quiet" }],
    stateOf(row),
    figure(row, row.zxid),
    lagOf(row),
    number(row.connections),
    number(row.sessions),
    number(row.watches),
    figure(row, row.sync_ms === null ? null : `${count(row.sync_ms)} ms`, "no sync of its log was observed yet"),
    digestOf(row, all),
    figure(row, row.version === null ? null : oneLine(row.version.split(/[-,]/)[0])),
    figure(row, row.serving_since ? moment(local(row.serving_since)) : null),
    row.is_own ? "this console" : link ? { text: "Open", href: link, title: `Open the console of ${nameOf(row)}` } : figure(row, null, "its admin port is unknown"),
  ];
}

/** The section about all members. */
export function members() {
  const rows = liveTable("Members", HEADS);
  const events = liveTable("Events", ["Time", "Event"]);
  const none = h("p", { class: "quiet" }, "No election and no change was observed since the start of this server.");
  const section = h("section", { "aria-label": "Members" });
  show(
    section,
    h("h2", {}, "Members"),
    rows.box,
    h(
      "p",
      { class: "quiet" },
      "This member queries the others at their admin ports, without credentials. ",
      "Mean disk sync: mean time of the latest syncs of the log.",
    ),
    h("h2", {}, "Elections and changes of the member list"),
    events.box,
    none,
  );
  return {
    section,
    update(state) {
      const all = state.members;
      rows.update(
        all.map((row) => ({ key: String(row.member), class: row.problem ? "old" : "", cells: cellsOf(row, all) })),
      );
      events.update(
        state.events.map(({ at, text }, index) => ({
          key: `${state.events.length - index} ${at} ${text}`,
          cells: [moment(local(at)), oneLine(text)],
        })),
      );
      events.box.hidden = state.events.length === 0;
      none.hidden = state.events.length > 0;
    },
  };
}
