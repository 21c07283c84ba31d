// Dialog that finds znodes: a path with completion, or a text in names and data.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { json } from "../lib/ask.js";
import { closeDialog, isDialogOpen, openDialog } from "../lib/dialog.js";
import { route } from "../lib/state.js";
import { count, join, linkTo, oneLine, parentOf } from "../lib/text.js";

/** Pause in typing after which a request is sent. */
const PAUSE_MS = 150;
/** Maximum number of results. */
const ROWS = 200;

const isTyping = (node) => Boolean(node.closest?.("input, textarea, select, [contenteditable], .editor"));

/** Opens the dialog on `/` and Ctrl-K. */
export function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
    const isSlash = event.key === "/" && isPlain && !isTyping(event.target);
    const isCtrlK = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey;
    if ((!isSlash && !isCtrlK) || isDialogOpen()) return;
    event.preventDefault();
    openFind();
  });
}

/** Opens the dialog for the part of the tree that is shown. */
export function openFind() {
  const { view, path } = route.peek();
  openDialog(() => html`<${Find} path=${view === "tree" ? path : "/"} />`);
}

function go(path) {
  closeDialog();
  location.hash = linkTo(path);
}

/** Children whose names begin with the rest of a path. */
async function complete(text, signal) {
  const above = parentOf(text);
  const rest = text.slice(text.lastIndexOf("/") + 1);
  const page = await json("children", { path: above, like: rest }, signal);
  const begins = page.children.filter(({ name }) => name.toLowerCase().startsWith(rest.toLowerCase()));
  return begins.map(({ name }) => ({ path: join(above, name), in: "name" }));
}

function Result({ row, at, isChosen }) {
  const node = useRef(null);
  useEffect(() => {
    if (isChosen) node.current.scrollIntoView({ block: "nearest" });
  }, [isChosen]);
  return html`
    <li ref=${node} id=${`result-${at}`} role="option" aria-selected=${String(isChosen)} onClick=${() => go(row.path)}>
      ${row.in === "data" ? `${oneLine(row.path)} (data)` : oneLine(row.path)}
    </li>
  `;
}

function Find({ path }) {
  const input = useRef(null);
  const [text, type] = useState("");
  const [scope, below] = useState("/");
  const [kind, within] = useState("all");
  const [rows, show] = useState([]);
  const [chosen, choose] = useState(-1);
  const [about, tell] = useState("");
  const [running, run] = useState(null);

  useEffect(() => {
    input.current.focus();
  }, []);

  useEffect(() => {
    const ending = new AbortController();
    const { signal } = ending;
    const search = async () => {
      const found = [];
      let from = 0;
      do {
        const page = await json("search", { path: scope, text, in: kind, from }, signal);
        found.push(...page.results.slice(0, ROWS - found.length));
        show([...found]);
        from = page.next;
        tell(`Searching… Results: ${count(found.length)}.`);
      } while (from !== null && found.length < ROWS);
      tell(from === null ? `Results: ${count(found.length)}.` : `Only the first ${ROWS} results are shown.`);
    };
    const answer = async () => {
      run(ending);
      try {
        if (text.startsWith("/")) {
          const found = await complete(text, signal);
          show(found);
          tell(found.length === 0 ? "No child begins with this text." : "");
        } else await search();
      } catch (error) {
        if (!signal.aborted) tell(error.code === "NoNode" ? "This path does not exist." : error.message);
      } finally {
        if (!signal.aborted) run(null);
      }
    };
    show([]);
    choose(-1);
    tell("");
    run(null);
    const timer = text.trim() === "" ? null : setTimeout(answer, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      ending.abort();
    };
  }, [text, scope, kind]);

  const stop = () => {
    running?.abort();
    run(null);
    tell("Stopped.");
  };

  const press = (event) => {
    const steps = {
      ArrowDown: () => choose(Math.min(chosen + 1, rows.length - 1)),
      ArrowUp: () => choose(Math.max(chosen - 1, -1)),
      Enter: () => {
        const typed = text.trim().replace(/(.)\/+$/, "$1");
        if (rows[chosen]) go(rows[chosen].path);
        else if (typed.startsWith("/")) go(typed);
        else if (rows.length > 0) go(rows[0].path);
      },
      Tab: () => {
        const row = rows[Math.max(chosen, 0)];
        if (!text.startsWith("/") || !row) return false;
        type(`${row.path}/`);
        return true;
      },
    };
    const step = event.shiftKey ? null : steps[event.key];
    if (step && step() !== false) event.preventDefault();
  };

  return html`
    <h2 id="dialog-title">Find</h2>
    <input
      ref=${input}
      type="text"
      role="combobox"
      aria-label="Path, or text in names and data"
      aria-controls="results"
      aria-expanded=${String(rows.length > 0)}
      aria-autocomplete="list"
      aria-activedescendant=${rows[chosen] ? `result-${chosen}` : undefined}
      autocomplete="off"
      spellcheck=${false}
      placeholder="/path, or a text"
      value=${text}
      onInput=${(event) => type(event.target.value)}
      onKeyDown=${press}
    />
    <div class="tools">
      <select aria-label="Part of the tree" value=${scope} onChange=${(event) => below(event.target.value)}>
        <option value="/">Whole tree</option>
        ${path !== "/" && html`<option value=${path}>Below ${oneLine(path)}</option>`}
      </select>
      <select aria-label="Searched text" value=${kind} onChange=${(event) => within(event.target.value)}>
        <option value="all">Names and data</option>
        <option value="names">Names</option>
      </select>
      ${running && html`<button type="button" onClick=${stop}>Stop</button>`}
    </div>
    <p class="quiet" role="status">${about}</p>
    <ul id="results" class="results" role="listbox" aria-label="Results">
      ${rows.map((row, at) => html`<${Result} key=${`${row.in} ${row.path}`} row=${row} at=${at} isChosen=${at === chosen} />`)}
    </ul>
    <div class="actions"><button type="button" data-close>Close</button></div>
  `;
}
