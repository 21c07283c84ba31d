// The sessions of this member: who, from where, what they own and watch.

import { json } from "./ask.js";
import { count, duration, h, moment, oneLine, show, table } from "./dom.js";
import { linkTo } from "./tree.js";

function pathsOf({ total, paths }, what) {
  if (total === 0) return "–";
  return h(
    "details",
    { open: total <= 3 },
    h("summary", {}, `${what}: ${count(total)}`),
    h(
      "ul",
      { class: "paths" },
      paths.map((path) => h("li", {}, h("a", { href: linkTo(path) }, oneLine(path)))),
      total > paths.length && h("li", { class: "quiet" }, `and ${count(total - paths.length)} more`),
    ),
  );
}

/** The view; sessions whose id or address holds `like`. */
export function sessions(place, like) {
  const found = h("div");
  const about = h("p", { class: "quiet" });
  let pages = [0];
  let drawn = "";
  const filter = h("input", {
    type: "search",
    value: like,
    placeholder: "0x… or an address",
    oninput: () => {
      pages = [0];
      refresh();
    },
  });
  show(
    place,
    h("h1", {}, "Sessions"),
    h("div", { class: "tools" }, h("label", { class: "inline" }, "Id or address ", filter), about),
    found,
  );

  function turn(answer) {
    const back = pages.length > 1 && h("button", { type: "button", onclick: () => { pages.pop(); refresh(); } }, "Back");
    const next =
      answer.has_more &&
      h("button", { type: "button", onclick: () => { pages.push(pages.at(-1) + answer.sessions.length); refresh(); } }, "More");
    return h("div", { class: "actions" }, back, next);
  }

  function draw(answer) {
    // Whoever has opened a list reads it: it is drawn again when something has changed only.
    const state = JSON.stringify(answer.sessions.map((one) => [one.id, one.ephemerals, one.watches, one.connection?.received]));
    if (state === drawn) return;
    drawn = state;
    const opened = new Set([...found.querySelectorAll("details[open]")].map((one) => one.dataset.key));
    const closed = new Set([...found.querySelectorAll("details:not([open])")].map((one) => one.dataset.key));
    const rows = answer.sessions.map((one) => {
      const connection = one.connection;
      return [
        h("code", {}, one.id),
        connection ? `${connection.address}:${connection.port}` : h("span", { class: "quiet" }, "not connected to this member"),
        connection ? h("span", { title: moment(connection.established_ms) }, duration(Date.now() - connection.established_ms)) : "–",
        connection ? count(connection.received) : "–",
        connection ? connection.last_operation : "–",
        connection ? `${count(connection.average_latency_ms)} / ${count(connection.max_latency_ms)} ms` : "–",
        pathsOf(one.ephemerals, "ephemerals"),
        pathsOf(one.watches, "watches"),
      ];
    });
    show(
      found,
      table(
        "Sessions",
        ["Session", "Client", "Connected for", "Requests", "Last operation", "Latency mean / max", "Ephemerals", "Watches"],
        rows,
        "no matching sessions",
      ),
      turn(answer),
    );
    found.querySelectorAll("tbody tr").forEach((row, index) => {
      row.querySelectorAll("details").forEach((one, column) => {
        const { id, connection } = answer.sessions[index] ?? {};
        one.dataset.key = `${id} ${connection?.address}:${connection?.port}/${column}`;
        if (opened.has(one.dataset.key)) one.open = true;
        if (closed.has(one.dataset.key)) one.open = false;
      });
    });
  }

  async function refresh() {
    const answer = await json("sessions", { skip: pages.at(-1), like: filter.value.trim() });
    about.textContent = `Known sessions: ${count(answer.total)}, connected to this member: ${count(answer.connected)}.`;
    draw(answer);
  }

  return { refresh };
}
