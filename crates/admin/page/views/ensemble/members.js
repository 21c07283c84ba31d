// All members of the ensemble, and the events that this member observed.

import { html } from "../../vendor/preact.js";
import { consoleOf, ensemble, local, nameOf, now } from "../../lib/state.js";
import { clock, count, duration, moment, oneLine, plural } from "../../lib/text.js";
import { Table } from "../../lib/ui.js";

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

/** Reason why a figure of a member is missing. */
function reason(row, other) {
  if (!row.seen) return row.problem ?? "not queried yet";
  if (!row.is_serving && !row.problem) return "the server does not serve clients";
  return other ?? "the server does not report it";
}

function figure(row, value, other) {
  if (value !== null && value !== undefined) return value;
  const why = reason(row, other);
  return html`<span title=${why}>–</span><span class="hidden"> (${why})</span>`;
}

/** Age of the figures of a member that does not answer. */
function Age({ row }) {
  const seen = local(row.seen);
  return html`<span class="quiet"> · figures of ${clock(seen)}, ${duration(now.value - seen)} old</span>`;
}

function stateOf(row) {
  return html`
    <span class=${`chip role-${row.state}`}>${row.state}</span> since ${clock(local(row.since))}${
      row.problem && html`<span class="wrong"> · ${oneLine(row.problem)}</span>`
    }${row.problem && row.seen && html`<${Age} row=${row} />`}${
      row.seen && !row.is_serving && html`<span class="quiet"> · no figures: the server does not serve clients</span>`
    }
  `;
}

function lagOf(row) {
  if (row.lag === null || row.lag_ms === null) return figure(row, null, "it is not in the epoch of a known leader");
  const late = row.lag_ms > 0 ? `, ${duration(row.lag_ms)}` : "";
  return `${plural(row.lag, "transaction", "transactions")}${late}`;
}

/** Digests of two members after the same transaction must be equal. */
function digestOf(row, all) {
  if (!row.digest) return figure(row, null, "no digest is recorded yet");
  const differs = all.some((other) => other.digest_zxid === row.digest_zxid && other.digest !== row.digest);
  return html`
    <span class="code">${row.digest}</span><span class="quiet"> after ${row.digest_zxid}</span>${
      differs && html`<span class="wrong"> differs from another member</span>`
    }
  `;
}

function linkOf(row) {
  if (row.is_own) return "this console";
  const link = consoleOf(row);
  if (link === null) return figure(row, null, "its admin port is unknown");
  return html`<a href=${link} title=${`Open the console of ${nameOf(row)}`}>Open</a>`;
}

function cellsOf(row, all) {
  const duty = row.votes === false ? " · observer" : "";
  const number = (value) => figure(row, value === null ? null : count(value));
  return [
    html`${nameOf(row)}<span class="quiet"> ${row.address ?? ""}${duty}</span>`,
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
    linkOf(row),
  ];
}

/** Elections and changes of the member list. */
export function Events() {
  const events = ensemble.value?.events ?? [];
  const none = "No election and no change was observed since the start of this server.";
  const rows = events.map(({ at, text }, index) => ({
    key: `${events.length - index} ${at} ${text}`,
    cells: [moment(local(at)), oneLine(text)],
  }));
  return html`
    <h2>Elections and changes of the member list</h2>
    <${Table} caption="Events" heads=${["Time", "Event"]} rows=${rows} empty=${none} />
  `;
}

/** Section about all members. */
export function Members() {
  const { members } = ensemble.value ?? { members: [] };
  const rows = members.map((row) => ({
    key: String(row.member),
    class: row.problem ? "old" : "",
    cells: cellsOf(row, members),
  }));
  return html`
    <section aria-label="All members">
      <h2>Members</h2>
      <${Table} caption="Members" heads=${HEADS} rows=${rows} empty="loading" />
      <p class="quiet">
        ${"This member queries the others at their admin ports, without credentials. "}
        ${"Mean disk sync: mean time of the latest syncs of the log."}
      </p>
    </section>
  `;
}
