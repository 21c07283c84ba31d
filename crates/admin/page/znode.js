// One znode: its data in three ways, its Stat, its ACL, and what can be changed about it.

import { ask, json, visit } from "./ask.js";
import { bytes, count, h, moment, oneLine, say, show, table, visible } from "./dom.js";
import { createBelow, editAcl, editData, remove } from "./edit.js";
import { linkTo, parentOf } from "./tree.js";

/** How the data is shown; the reader's choice holds for the next znode too. */
let chosen = null;

const PERMISSIONS = { c: "create", d: "delete", r: "read", w: "write", a: "admin" };

export function decode64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** The text of these bytes, if they are one. A piece may end within a character. */
export function textOf(data, isCut) {
  for (let less = 0; less <= (isCut ? 3 : 0); less += 1) {
    try {
      return new TextDecoder("utf-8", { fatal: true }).decode(data.subarray(0, data.length - less));
    } catch {
      // Perhaps the last character is not whole.
    }
  }
  return null;
}

/** Text in JSON with line ends; every number and string as it was written, which parsing would not keep. */
function jsonOf(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? [];
  tokens.forEach((token, at) => {
    const next = tokens[at + 1];
    if (token === "{" || token === "[") {
      const isEmpty = next === "}" || next === "]";
      depth += 1;
      out += isEmpty ? token : token + line();
    } else if (token === "}" || token === "]") {
      depth -= 1;
      const isEmpty = /[[{]$/.test(out);
      out += isEmpty ? token : line() + token;
    } else if (token === ",") out += token + line();
    else if (token === ":") out += ": ";
    else out += token;
  });
  return out;
}

export function hexOf(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const row = [...data.subarray(at, at + 16)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0"));
    const left = hex.slice(0, 8).join(" ").padEnd(23);
    const right = hex.slice(8).join(" ").padEnd(23);
    const text = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${left}  ${right}  ${text}`);
  }
  return lines.join("\n");
}

/** What can be shown of these bytes: `[name, text]`, the most telling first. */
function ways(data, isCut) {
  const text = textOf(data, isCut);
  const pretty = text !== null && !isCut ? jsonOf(text) : null;
  const isObject = pretty !== null && /^[[{]/.test(pretty);
  const found = [];
  if (text !== null) found.push(["Text", visible(text)]);
  if (pretty !== null) found[isObject ? "unshift" : "push"](["JSON", visible(pretty)]);
  found.push(["Hex", hexOf(data)]);
  return found;
}

function crumbs(path) {
  const parts = path.split("/").filter((part) => part !== "");
  const links = [h("a", { href: linkTo("/") }, "/")];
  parts.forEach((part, at) => {
    const below = `/${parts.slice(0, at + 1).join("/")}`;
    if (at > 0) links.push(h("span", { "aria-hidden": "true" }, "/"));
    const isLast = at === parts.length - 1;
    links.push(h("a", { href: linkTo(below), ...(isLast ? { "aria-current": "page" } : {}) }, oneLine(part)));
  });
  return h("nav", { class: "crumbs", "aria-label": "Path" }, links);
}

function statOf(stat) {
  const rows = [
    ["Data", `version ${stat.version}, ${bytes(stat.data_length)}`],
    ["Changed", `${moment(stat.mtime)} · ${stat.mzxid}`],
    ["Created", `${moment(stat.ctime)} · ${stat.czxid}`],
    ["Children", `${count(stat.num_children)}, version ${stat.cversion} · ${stat.pzxid}`],
    ["ACL", `version ${stat.aversion}`],
  ];
  if (stat.is_ephemeral) rows.push(["Owner", h("a", { href: `#/sessions/${stat.ephemeral_owner.replace("…", "")}` }, stat.ephemeral_owner)]);
  return h(
    "dl",
    { class: "stat" },
    rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}

function aclOf(acl) {
  if (acl === null) return h("p", { class: "quiet" }, "This identity may not see the ACL.");
  return table(
    "ACL",
    ["Scheme", "Id", "Permissions"],
    acl.map(({ scheme, id, perms }) => [
      scheme,
      oneLine(id),
      h("span", { title: [...perms].map((letter) => PERMISSIONS[letter]).join(", ") }, perms || "none"),
    ]),
    "empty",
  );
}

/** Fetches all of the data; pieces of one version only. */
export async function whole(path, stat) {
  const pieces = [];
  let length = 0;
  do {
    const answer = await ask("GET", "data", { path, offset: length });
    if (answer.headers.get("x-znode-mzxid") !== stat.mzxid) throw new Error("the znode has changed meanwhile: reload it");
    const piece = new Uint8Array(await answer.arrayBuffer());
    if (piece.length === 0) break;
    pieces.push(piece);
    length += piece.length;
  } while (length < stat.data_length);
  const all = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

/** Shows a znode in `pane`; `changed(path)` is told what this page has changed. */
export function znode(pane, path, { changed }) {
  let known = null;
  let data = null;
  let isBusy = false;

  function drawData() {
    if (!known.may_read) return h("p", { class: "quiet" }, "This identity may not read the data and the children.");
    if (known.data === null) return h("p", { class: "quiet" }, "No data (null).");
    if (data.length === 0) return h("p", { class: "quiet" }, "Empty.");
    const isCut = data.length < known.stat.data_length;
    const all = ways(data, isCut);
    const way = all.find(([name]) => name === chosen) ?? all[0];
    const body = h("pre", { class: "data", tabindex: "0", role: "region", "aria-label": `Data as ${way[0]}` }, way[1]);
    const choice = h(
      "div",
      { class: "ways", role: "group", "aria-label": "Show data as" },
      all.map(([name]) =>
        h(
          "button",
          {
            type: "button",
            "aria-pressed": String(name === way[0]),
            onclick: () => {
              chosen = name;
              draw();
              pane.querySelector('.ways [aria-pressed="true"]')?.focus();
            },
          },
          name,
        ),
      ),
    );
    const rest =
      isCut &&
      h(
        "p",
        { class: "quiet" },
        `The first ${bytes(data.length)} of ${bytes(known.stat.data_length)}. `,
        h(
          "button",
          {
            type: "button",
            onclick: async () => {
              try {
                data = await whole(path, known.stat);
                draw();
              } catch (error) {
                say(error.message);
              }
            },
          },
          "Show all data",
        ),
      );
    return [choice, body, rest];
  }

  function actions() {
    const on = visit.user !== null;
    const act = (label, go, isDanger) =>
      h("button", { type: "button", class: isDanger ? "danger" : "", onclick: go }, label);
    const after = async (to) => {
      await changed(to);
      await load();
    };
    if (!on) {
      return h("p", { class: "quiet" }, "Read only. Log in with a ZooKeeper identity to change this znode.");
    }
    const context = { path, known, data, whole: () => whole(path, known.stat) };
    return h(
      "div",
      { class: "actions" },
      known.may_read && act("Edit data", () => editData(context, () => after(path))),
      act("Create below", () => createBelow(context, (made) => after(made))),
      known.acl !== null && act("Edit ACL", () => editAcl(context, () => after(path))),
      path !== "/" &&
        act(
          "Delete",
          () =>
            remove(context, async () => {
              await changed(path);
              location.hash = linkTo(parentOf(path));
            }),
          true,
        ),
    );
  }

  const historyLink = () =>
    visit.has_history && h("a", { class: "aside", href: linkTo(path).replace("#/tree", "#/history") }, "History");

  function draw() {
    const isEphemeral = known.stat.is_ephemeral;
    show(
      pane,
      h("div", { class: "head" }, crumbs(path), isEphemeral && h("span", { class: "chip" }, "ephemeral"), historyLink()),
      actions(),
      h("h2", {}, "Data"),
      drawData(),
      h("div", { class: "pair" }, h("div", {}, h("h2", {}, "Stat"), statOf(known.stat)), h("div", {}, h("h2", {}, "ACL"), aclOf(known.acl))),
    );
  }

  async function load() {
    try {
      known = await json("node", { path });
      data = known.data === null ? null : decode64(known.data);
      draw();
    } catch (error) {
      known = null;
      show(pane, h("div", { class: "head" }, crumbs(path), historyLink()), h("p", { class: "wrong", role: "alert" }, error.message));
    }
  }

  return {
    load,
    async refresh() {
      if (isBusy) return;
      isBusy = true;
      try {
        const { stat } = await json("stat", { path });
        const isNew = known === null;
        const same = ["mzxid", "pzxid", "aversion", "num_children"].every((name) => known?.stat[name] === stat[name]);
        if (same) return;
        const isData = !isNew && known.stat.mzxid !== stat.mzxid;
        await load();
        if (isData) {
          pane.querySelector(".data")?.classList.add("fresh");
          say(`${oneLine(path)} was changed: version ${stat.version}`);
        }
      } catch (error) {
        if (!error.code) throw error;
        if (error.code === "NoNode" && known !== null) await load();
      } finally {
        isBusy = false;
      }
    },
  };
}
