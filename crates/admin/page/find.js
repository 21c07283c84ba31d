// The dialog that finds znodes: a path with completion, or a text in names and data.

import { json } from "./ask.js";
import { count, h, oneLine, show } from "./dom.js";
import { join, linkTo, parentOf } from "./tree.js";

/** Pause in typing after which the page asks. */
const PAUSE_MS = 150;
/** Results that are shown. */
const ROWS = 200;

const isTyping = (node) => Boolean(node.closest?.("input, textarea, select, [contenteditable]"));

/** Opens the dialog on `/` and Ctrl-K. `here` returns the path of the shown znode. */
export function listen(here) {
  document.getElementById("find").addEventListener("click", () => open(here()));
  document.addEventListener("keydown", (event) => {
    const isSlash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !isTyping(event.target);
    const isCtrlK = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey;
    if ((!isSlash && !isCtrlK) || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    open(here());
  });
}

function open(path) {
  const input = h("input", {
    type: "text",
    role: "combobox",
    "aria-label": "Path, or text in names and data",
    "aria-controls": "results",
    "aria-expanded": "false",
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "/path, or a text",
  });
  const scope = h("select", { "aria-label": "Part of the tree", onchange: () => type() },
    h("option", { value: "/" }, "Whole tree"),
    path !== "/" && h("option", { value: path }, `Below ${oneLine(path)}`),
  );
  const kind = h("select", { "aria-label": "Searched text", onchange: () => type() },
    h("option", { value: "all" }, "Names and data"),
    h("option", { value: "names" }, "Names"),
  );
  const list = h("ul", { id: "results", class: "results", role: "listbox", "aria-label": "Results" });
  const about = h("p", { class: "quiet", role: "status" });
  const stop = h("button", { type: "button", hidden: true, onclick: () => end("Stopped.") }, "Stop");
  const box = h(
    "dialog",
    {
      "aria-labelledby": "dialog-title",
      onclose: () => {
        running?.abort();
        clearTimeout(timer);
        box.remove();
      },
    },
    h("h2", { id: "dialog-title" }, "Find"),
    input,
    h("div", { class: "tools" }, scope, kind, stop),
    about,
    list,
    h("div", { class: "actions" }, h("button", { type: "button", onclick: () => box.close() }, "Close")),
  );
  let running = null;
  let timer = null;
  let rows = [];
  let chosen = -1;

  function choose(at) {
    chosen = at;
    [...list.children].forEach((node, index) => node.setAttribute("aria-selected", String(index === at)));
    const node = list.children[at];
    if (node) input.setAttribute("aria-activedescendant", node.id);
    else input.removeAttribute("aria-activedescendant");
    node?.scrollIntoView({ block: "nearest" });
  }

  function draw() {
    for (const row of rows.slice(list.children.length)) {
      const id = `result-${list.children.length}`;
      const text = row.in === "data" ? `${oneLine(row.path)} (data)` : oneLine(row.path);
      list.append(h("li", { id, role: "option", "aria-selected": "false", onclick: () => go(row.path) }, text));
    }
    input.setAttribute("aria-expanded", String(rows.length > 0));
  }

  function clear() {
    rows = [];
    show(list);
    choose(-1);
    draw();
  }

  function go(to) {
    box.close();
    location.hash = linkTo(to);
  }

  function end(text) {
    running?.abort();
    running = null;
    stop.hidden = true;
    about.textContent = text;
  }

  /** Completes a path: the children of the last complete znode that begin with the rest. */
  async function complete(text, signal) {
    const above = parentOf(text);
    const rest = text.slice(text.lastIndexOf("/") + 1);
    const page = await json("children", { path: above, like: rest }, signal);
    signal.throwIfAborted();
    const begins = page.children.filter(({ name }) => name.toLowerCase().startsWith(rest.toLowerCase()));
    rows = begins.map(({ name }) => ({ path: join(above, name), in: "name" }));
    draw();
    end(rows.length === 0 ? "No child begins with this text." : "");
  }

  async function search(text, signal) {
    let from = 0;
    do {
      const page = await json("search", { path: scope.value, text, in: kind.value, from }, signal);
      signal.throwIfAborted();
      rows.push(...page.results.slice(0, ROWS - rows.length));
      draw();
      from = page.next;
      about.textContent = `Searching… Results: ${count(rows.length)}.`;
    } while (from !== null && rows.length < ROWS);
    end(from === null ? `Results: ${count(rows.length)}.` : `Only the first ${ROWS} results are shown.`);
  }

  async function ask() {
    const text = input.value;
    running?.abort();
    clear();
    if (text.trim() === "") {
      end("");
      return;
    }
    const mine = new AbortController();
    running = mine;
    stop.hidden = false;
    try {
      await (text.startsWith("/") ? complete(text, mine.signal) : search(text, mine.signal));
    } catch (error) {
      if (!mine.signal.aborted) end(error.code === "NoNode" ? "This path does not exist." : error.message);
    }
  }

  function type() {
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE_MS);
  }

  function press(event) {
    const steps = {
      ArrowDown: () => choose(Math.min(chosen + 1, rows.length - 1)),
      ArrowUp: () => choose(Math.max(chosen - 1, -1)),
      Enter: () => {
        const path = input.value.trim().replace(/(.)\/+$/, "$1");
        if (rows[chosen]) go(rows[chosen].path);
        else if (path.startsWith("/")) go(path);
        else if (rows.length > 0) go(rows[0].path);
      },
      Tab: () => {
        const row = rows[Math.max(chosen, 0)];
        if (!input.value.startsWith("/") || !row) return false;
        input.value = `${row.path}/`;
        type();
        return true;
      },
    };
    const step = event.shiftKey ? null : steps[event.key];
    if (step && step() !== false) event.preventDefault();
  }

  input.addEventListener("input", type);
  input.addEventListener("keydown", press);
  document.body.append(box);
  box.showModal();
  input.focus();
}
