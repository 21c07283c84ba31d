// Who asks for what, and which requests took long.

import { told, visit } from "./ask.js";
import { bytes, count, h, moment, oneLine, show, table } from "./dom.js";
import { linkTo } from "./tree.js";

const ROWS = 50;

/** What rows are told apart by: the name of their key, and whether only who may do everything is told. */
const KINDS = {
  address: { label: "Address", key: "address", isForAll: true },
  identity: { label: "Identity", key: "identity", isForAll: false },
  connection: { label: "Connection", key: "remote_socket_address", isForAll: false },
};

const SORTS = {
  requests: "Requests",
  received_bytes: "Bytes received",
  sent_bytes: "Bytes sent",
  outstanding: "Unanswered",
  watches: "Watches",
  ephemerals: "Ephemerals",
  max_latency: "Longest wait",
};

function choice(label, options, chosen, changed) {
  const list = Object.entries(options).map(([value, text]) => h("option", { value, selected: value === chosen }, text));
  return h("label", { class: "inline" }, `${label} `, h("select", { onchange: (event) => changed(event.target.value) }, list));
}

/** A session's number as the log and the words write it. */
function session(id) {
  return `0x${BigInt.asUintN(64, BigInt(id)).toString(16)}`;
}

/** The view. */
export function clients(place) {
  const found = h("div");
  const slow = h("div");
  const about = h("p", { class: "quiet" });
  let by = "address";
  let sort = "requests";
  let before = new Map();
  let at = 0;

  function again() {
    before = new Map();
    refresh();
  }

  const kinds = Object.fromEntries(Object.entries(KINDS).map(([name, kind]) => [name, kind.label]));
  show(
    place,
    h("h1", {}, "Clients"),
    h(
      "div",
      { class: "tools" },
      choice("Group by", kinds, by, (value) => {
        by = value;
        again();
      }),
      choice("Sort by", SORTS, sort, (value) => {
        sort = value;
        again();
      }),
      about,
    ),
    found,
    slow,
  );

  function draw(answer) {
    const now = performance.now();
    const seconds = (now - at) / 1000;
    const { label, key } = KINDS[by];
    const rate = (row) => (before.has(row[key]) ? `${count(Math.max(0, row.requests - before.get(row[key])) / seconds)} /s` : "–");
    const rows = answer.clients.map((row) => [
      oneLine(row[key]),
      count(row.connections),
      rate(row),
      count(row.requests),
      bytes(row.received_bytes),
      bytes(row.sent_bytes),
      count(row.outstanding),
      count(row.watches),
      count(row.ephemerals),
      `${count(row.max_latency)} ms`,
    ]);
    before = new Map(answer.clients.map((row) => [row[key], row.requests]));
    at = now;
    const heads = [label, "Connections", "Rate", "Requests", "Received", "Sent", "Unanswered", "Watches", "Ephemerals", "Longest wait"];
    show(found, table("Clients", heads, rows, "no requests yet"));
    const hidden = answer.left_out > 0 ? ` Rows that are not shown: ${count(answer.left_out)}.` : "";
    about.textContent = `Figures of this member since its start.${hidden}`;
  }

  function drawSlow(answer) {
    const isOff = answer.threshold === null;
    const rows = answer.requests.map((one) => [
      moment(one.at),
      `${count(one.took)} ms`,
      one.operation,
      one.path === null ? "–" : h("a", { href: linkTo(one.path) }, oneLine(one.path)),
      one.remote_socket_address,
      h("code", {}, session(one.session_id)),
    ]);
    show(
      slow,
      h("h2", {}, "Slow requests"),
      h(
        "p",
        { class: "quiet" },
        isOff
          ? "Slow requests are not listed because zoarium.slowRequestThresholdMs is not set."
          : `Requests that took ${count(answer.threshold)} ms or more since the start of the server: ${count(answer.count)}. Newest first.`,
      ),
      !isOff && table("Slow requests", ["Time", "Duration", "Operation", "Znode", "Client", "Session"], rows, "none yet"),
    );
  }

  function drawNothing(place, title, text) {
    show(place, title && h("h2", {}, title), h("p", { class: "quiet" }, text));
  }

  async function refresh() {
    const mayAsk = visit.user !== null;
    if (mayAsk || KINDS[by].isForAll) {
      try {
        draw(await told("clients", { by, sort, limit: ROWS }));
      } catch (error) {
        if (error.status === 0) throw error;
        drawNothing(found, null, error.message);
      }
    } else {
      drawNothing(found, null, "Only administrators see identities and connections. Log in as an administrator to see them.");
    }
    if (!mayAsk) {
      drawNothing(slow, "Slow requests", "The list contains clients and paths. Log in as an administrator to see it.");
      return;
    }
    try {
      drawSlow(await told("slow_requests", { limit: ROWS }));
    } catch (error) {
      if (error.status === 0) throw error;
      drawNothing(slow, "Slow requests", error.message);
    }
  }

  return { refresh };
}
