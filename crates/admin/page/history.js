// What was changed below a path: a slider over the moments, the tree as it was, and what differs between two of them.

import { json } from "./ask.js";
import { bytes, count, h, moment, oneLine, show, table, visible } from "./dom.js";
import { linkTo } from "./tree.js";
import { decode64, textOf } from "./znode.js";

/** Changes that the sliders reach back over. */
const CHANGES = 500;

/** Rows of a list. */
const ROWS = 200;

/** Characters of data in a row. */
const SHOWN = 160;

function dataOf(data) {
  if (data === null || data === undefined) return h("span", { class: "quiet" }, "–");
  if (data.base64 === undefined) return `${bytes(data.size)}, not stored`;
  const raw = decode64(data.base64);
  if (raw.length === 0) return h("span", { class: "quiet" }, "empty");
  const text = textOf(raw, false);
  if (text === null) return `${bytes(raw.length)}, not text`;
  const cut = [...text].slice(0, SHOWN).join("");
  return h("code", { class: "bit" }, visible(cut), cut.length < text.length && "…");
}

const path_ = (path) => h("a", { href: linkTo(path) }, oneLine(path));

/** Who it was, as far as this member knows. */
function who(change) {
  if (change.session === null) return "only administrators see the client";
  const named = change.identities.map((one) => (typeof one === "string" ? one : `${one.scheme}:${one.id}`));
  return oneLine([...named, change.client].filter((part) => part).join(" ")) || change.session;
}

/** The view, of what was changed at and below this path. */
export function history(place, first) {
  let path = first;
  let changes = [];
  const about = h("p", { class: "quiet", role: "status" });
  const slider = (label) => {
    const told = h("output", { class: "moment" });
    const input = h("input", { type: "range", min: "0", max: "0", step: "1", "aria-label": label });
    return { input, told, box: h("div", { class: "slide" }, h("b", {}, label), input, told) };
  };
  const earlier = slider("From");
  const later = slider("To");
  const diff = h("div");
  const tree = h("div");
  const list = h("div");
  const where = h("input", { type: "text", name: "path", value: path, spellcheck: "false", autocomplete: "off" });
  const form = h(
    "form",
    {
      class: "tools",
      onsubmit: (event) => {
        event.preventDefault();
        const hash = linkTo(where.value.trim() || "/").replace("#/tree", "#/history");
        if (location.hash === hash) load();
        else location.hash = hash;
      },
    },
    h("label", { class: "inline" }, "At and below ", where),
    h("button", { type: "submit" }, "Show"),
  );
  show(
    place,
    h("h1", {}, "History"),
    form,
    about,
    h("div", { class: "card sliders" }, earlier.box, later.box),
    diff,
    tree,
    list,
  );

  /** The state before the first change is that behind the zxid before it. */
  const zxidAt = (at) => (at === 0 ? `0x${(BigInt(changes[0].zxid) - 1n).toString(16)}` : changes[at - 1].zxid);

  function tell() {
    for (const { input, told } of [earlier, later]) {
      const at = Number(input.value);
      const change = changes[at - 1];
      const text = change ? `${moment(change.time_ms)} · ${change.zxid}` : "before the first change in this list";
      told.textContent = text;
      input.setAttribute("aria-valuetext", text);
    }
  }

  let asked = 0;
  let isMoved = false;
  let isLoading = false;

  async function look() {
    tell();
    if (changes.length === 0) {
      show(diff);
      show(tree);
      return;
    }
    asked += 1;
    const mine = asked;
    const from = zxidAt(Math.min(Number(earlier.input.value), Number(later.input.value)));
    const to = zxidAt(Math.max(Number(earlier.input.value), Number(later.input.value)));
    const [between, then] = await Promise.allSettled([
      json("history/diff", { path, from, to, limit: ROWS }),
      json("history/tree", { path, at: to, limit: ROWS }),
    ]);
    // Somebody moves a slider on before the answer is there.
    if (mine !== asked) return;
    const title = (text, answer) => [h("h2", {}, text), answer.value?.next && h("p", { class: "quiet" }, `Only the first ${ROWS} are shown.`)];
    const wrong = (answer) => h("p", { class: "wrong" }, answer.reason.message);
    show(
      diff,
      title("Differences", between),
      between.value
        ? table(
            "Differences",
            ["Znode", "Change", "Before", "After"],
            between.value.results.map((one) => [
              path_(one.path),
              one.kind,
              dataOf(one.before?.data),
              dataOf(one.after?.data),
            ]),
            "no differences",
          )
        : wrong(between),
    );
    show(
      tree,
      title(`The tree at ${to}`, then),
      then.value
        ? table(
            "The tree at that moment",
            ["Znode", "Version", "Modified", "Data"],
            then.value.results.map((one) => [
              path_(one.path),
              count(one.version),
              moment(one.mtime_ms),
              dataOf(one.data),
            ]),
            "the znode did not exist",
          )
        : wrong(then),
    );
  }

  async function load() {
    isMoved = false;
    isLoading = true;
    try {
      await list_();
    } finally {
      isLoading = false;
    }
  }

  async function list_() {
    try {
      const answer = await json("history/changes", { path, recursive: true, limit: CHANGES });
      // The reader has moved on while the answer was on its way: what is shown stays.
      if (isMoved) return;
      changes = answer.results.reverse();
      const hidden = answer.hidden > 0 ? ` Changes hidden from this identity: ${count(answer.hidden)}.` : "";
      const more = answer.next ? ` Only the last ${CHANGES} are shown.` : "";
      about.textContent = `Changes up to ${answer.extent.head}: ${count(changes.length)}.${more}${hidden}`;
    } catch (error) {
      changes = [];
      about.textContent = error.message;
    }
    for (const { input } of [earlier, later]) {
      input.max = String(changes.length);
      input.disabled = changes.length === 0;
    }
    earlier.input.value = String(Math.max(0, changes.length - 1));
    later.input.value = String(changes.length);
    show(
      list,
      h("h2", {}, "Changes, newest first"),
      table(
        "Changes",
        ["Time", "Operation", "Znode", "Client", "Data"],
        changes
          .map((change, at) => [change, at])
          .reverse()
          .slice(0, ROWS)
          .map(([change, at]) => [
            h(
              "button",
              {
                type: "button",
                class: "plain",
                title: "Compare with the moment before this change",
                onclick: () => {
                  isMoved = true;
                  earlier.input.value = String(at);
                  later.input.value = String(at + 1);
                  look();
                  scrollTo({ top: 0 });
                },
              },
              moment(change.time_ms),
            ),
            change.operation,
            path_(change.path),
            who(change),
            dataOf(change.data),
          ]),
        "no changes",
      ),
    );
    await look();
  }

  for (const { input } of [earlier, later]) {
    input.addEventListener("input", () => {
      isMoved = true;
      look();
    });
  }
  load().catch((error) => {
    about.textContent = error.message;
  });
  return {
    async go(to) {
      path = to;
      where.value = to;
      await load();
    },
    /** Follows what is changed, unless the reader looks at something else. */
    async refresh() {
      if (isLoading) return;
      const newest = (await json("history/changes", { path, recursive: true, limit: 1 })).results[0];
      if (!newest || newest.position === changes.at(-1)?.position) return;
      if (isMoved) about.textContent = "Newer changes exist. Press Show to show them.";
      else await load();
    },
  };
}
