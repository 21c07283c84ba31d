// The tree, as a tree widget: arrows move and open, typing is left to the browser.

import { json } from "./ask.js";
import { arrange, count, h, oneLine, show } from "./dom.js";
import { znode } from "./znode.js";

/** Open znodes whose children are looked at for changes, at a time. */
const WATCHED_MAX = 24;

export const join = (path, name) => (path === "/" ? `/${name}` : `${path}/${name}`);
export const parentOf = (path) => path.slice(0, path.lastIndexOf("/")) || "/";

/** The address of a znode within this page. */
export const linkTo = (path) => `#/tree${path.split("/").map(encodeURIComponent).join("/")}`;

/** The view, with this znode selected. */
export function tree(place, first) {
  const items = new Map();
  const list = h("ul", { role: "tree", "aria-label": "Znodes", class: "tree", onkeydown: pressed });
  const pane = h("section", { class: "pane", "aria-label": "Znode" });
  show(
    place,
    h("h1", { class: "hidden" }, "Znodes"),
    h("div", { class: "split" }, h("section", { class: "branch", "aria-label": "Tree" }, list), pane),
  );
  let selected = null;
  let shown = null;

  function makeItem(path, name, known, level) {
    const label = h("span", { class: "name" }, name === "" ? "/" : oneLine(name));
    const twist = h("span", { class: "twist", "aria-hidden": "true" });
    const badge = h("span", { class: "badge", "aria-hidden": "true" });
    const group = h("ul", { role: "group" });
    const row = h("div", { class: "row" }, twist, label, badge);
    const node = h(
      "li",
      { role: "treeitem", tabindex: "-1", "aria-level": level, "aria-selected": "false" },
      row,
    );
    const item = { path, node, row, group, badge, level, open: false, pzxid: null, names: [], more: null };
    row.addEventListener("click", (event) => {
      if (event.target === twist) toggle(item);
      else choose(item);
    });
    items.set(path, item);
    tell(item, known);
    return item;
  }

  function tell(item, known) {
    item.isEphemeral = known.is_ephemeral;
    item.node.classList.toggle("ephemeral", Boolean(known.is_ephemeral));
    const has = known.children > 0;
    item.has = has;
    item.badge.textContent = has ? count(known.children) : known.is_ephemeral ? "ephemeral" : "";
    if (has || item.open) item.node.setAttribute("aria-expanded", String(item.open));
    else item.node.removeAttribute("aria-expanded");
    const said = [item.path === "/" ? "root" : oneLine(item.path.slice(item.path.lastIndexOf("/") + 1))];
    if (has) said.push(`children: ${known.children}`);
    if (known.is_ephemeral) said.push("ephemeral");
    item.node.setAttribute("aria-label", said.join(", "));
  }

  function drop(item) {
    for (const name of item.names) {
      const child = items.get(join(item.path, name));
      if (child) drop(child);
    }
    items.delete(item.path);
    item.node.remove();
  }

  /** Lists children, `after` the ones that are there or anew. */
  async function list_(item, after) {
    const page = await json("children", { path: item.path, after: after ?? "" });
    const names = page.children.map((child) => child.name);
    if (after === undefined) {
      for (const name of item.names) {
        if (!names.includes(name) && !page.has_more) drop(items.get(join(item.path, name)));
      }
      item.names = page.has_more ? item.names.filter((name) => items.has(join(item.path, name))) : [];
    }
    for (const child of page.children) {
      const path = join(item.path, child.name);
      const known = items.get(path);
      if (known) tell(known, child);
      else makeItem(path, child.name, child, item.level + 1);
    }
    item.names = [...new Set([...item.names, ...names])].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    item.more?.remove();
    item.more = page.has_more ? moreOf(item, page.total) : null;
    arrange(item.group, [...item.names.map((name) => items.get(join(item.path, name)).node), ...(item.more ? [item.more] : [])]);
    item.pzxid = page.stat.pzxid;
    tell(item, { children: page.total, is_ephemeral: item.isEphemeral });
  }

  function moreOf(item, total) {
    const rest = total - item.names.length;
    const go = () => list_(item, item.names.at(-1)).catch(() => {});
    return h(
      "li",
      { role: "treeitem", tabindex: "-1", class: "more", "aria-level": item.level + 1, onclick: go, onkeydown: (event) => event.key === "Enter" && go() },
      `${count(rest)} more…`,
    );
  }

  async function open(item) {
    if (item.open) return;
    item.open = true;
    try {
      await list_(item);
    } catch (error) {
      show(item.group, h("li", { role: "treeitem", class: "wrong", "aria-level": item.level + 1 }, error.message));
    }
    item.node.append(item.group);
    item.node.setAttribute("aria-expanded", "true");
  }

  function close(item) {
    if (!item.open) return;
    item.open = false;
    item.group.remove();
    if (item.has) item.node.setAttribute("aria-expanded", "false");
  }

  const toggle = (item) => (item.open ? close(item) : open(item));

  function choose(item) {
    if (location.hash === linkTo(item.path)) mark(item.path);
    else location.hash = linkTo(item.path);
  }

  /** Makes an item the one that keys go to. */
  function focus(node) {
    for (const other of list.querySelectorAll('[tabindex="0"]')) other.setAttribute("tabindex", "-1");
    node.setAttribute("tabindex", "0");
    node.focus({ preventScroll: true });
    (node.querySelector(".row") ?? node).scrollIntoView({ block: "nearest" });
  }

  function pressed(event) {
    const node = event.target.closest('[role="treeitem"]');
    if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = [...list.querySelectorAll('[role="treeitem"]')];
    const at = all.indexOf(node);
    const item = [...items.values()].find((one) => one.node === node);
    const steps = {
      ArrowDown: () => all[at + 1] && focus(all[at + 1]),
      ArrowUp: () => all[at - 1] && focus(all[at - 1]),
      Home: () => focus(all[0]),
      End: () => focus(all.at(-1)),
      ArrowRight: () => item && (item.open ? item.names.length > 0 && focus(all[at + 1]) : item.has && open(item)),
      ArrowLeft: () => {
        if (item?.open && item.path !== "/") close(item);
        else node.parentElement.closest('[role="treeitem"]') && focus(node.parentElement.closest('[role="treeitem"]'));
      },
      Enter: () => item && choose(item),
      " ": () => item && choose(item),
    };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    step();
  }

  /** Shows a znode, and opens the way to it. */
  async function mark(path) {
    const parts = path.split("/").filter((part) => part !== "");
    let at = "/";
    await open(items.get("/"));
    for (const part of parts) {
      const above = items.get(at);
      if (above) await open(above);
      at = join(at, part);
      if (!items.has(at)) break;
    }
    for (const other of list.querySelectorAll('[aria-selected="true"]')) other.setAttribute("aria-selected", "false");
    selected = items.get(path) ?? null;
    if (selected) {
      selected.node.setAttribute("aria-selected", "true");
      const holds = list.contains(document.activeElement);
      for (const other of list.querySelectorAll('[tabindex="0"]')) other.setAttribute("tabindex", "-1");
      selected.node.setAttribute("tabindex", "0");
      if (holds) focus(selected.node);
      else selected.row.scrollIntoView({ block: "nearest" });
    }
    shown = znode(pane, path, { changed });
    await shown.load();
  }

  /** Somebody on this page has changed something: looks at once. */
  async function changed(path) {
    const above = items.get(parentOf(path));
    if (above?.open) await list_(above).catch(() => {});
  }

  list.append(makeItem("/", "", { children: 1 }, 1).node);
  items.get("/").node.setAttribute("tabindex", "0");
  mark(first);
  return {
    go: mark,
    async refresh() {
      const opened = [...items.values()].filter((item) => item.open).slice(0, WATCHED_MAX);
      for (const item of opened) {
        try {
          const { stat } = await json("stat", { path: item.path });
          if (stat.pzxid !== item.pzxid) await list_(item);
        } catch (error) {
          // Something is wrong with this page itself.
          if (!error.code) throw error;
          if (error.code === "NoNode") await changed(item.path);
          else break;
        }
      }
      await shown?.refresh();
    },
  };
}
