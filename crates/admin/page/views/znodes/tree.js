// Tree of znodes: a virtual list that renders only visible rows. The list has the focus, and one row is active.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact.js";
import { count, linkTo, nameIn, oneLine, parentOf } from "../../lib/text.js";
import { marked, toggleMark } from "./subtrees/marked.js";

/** Height of a row in pixels, as in the style sheet. */
const ROW_PX = 26;
/** Rows that are rendered before and after the visible ones. */
const MARGIN = 8;
/** Largest height of the list. A browser does not show higher elements. */
const HEIGHT_MAX_PX = 8_000_000;
/** Pause in scrolling after which pages are requested. */
const PAUSE_MS = 40;

/** Converts between rows and the scroll position. A long list has less than a row height for each row. */
class Scale {
  constructor(length, view) {
    this.full = length * ROW_PX;
    this.height = Math.min(this.full, HEIGHT_MAX_PX);
    this.view = view;
    this.ratio = this.height > view ? (this.full - view) / (this.height - view) : 1;
  }

  /** Position in the full list, in pixels. */
  positionOf(scrollTop) {
    return scrollTop * this.ratio;
  }

  scrollTopOf(position) {
    return position / this.ratio;
  }
}

function labelOf({ path, known }) {
  const said = [path === "/" ? "root" : oneLine(nameIn(path))];
  if (known?.children > 0) said.push(`children: ${known.children}`);
  if (known?.is_ephemeral) said.push("ephemeral");
  return said.join(", ");
}

function Row({ row, number, top, isActive, isSelected, isMarked, choose, toggle }) {
  const { path, level, known, isOpen, error, size, position } = row;
  const place = { top: `${top}px`, paddingLeft: `${(level - 1) * 1.05 + 0.2}rem` };
  const shared = {
    id: `row-${number}`,
    role: "treeitem",
    style: place,
    "aria-level": level,
    "aria-setsize": size,
    "aria-posinset": position,
    "aria-selected": String(isSelected),
    "aria-checked": isMarked === undefined ? undefined : String(isMarked),
  };
  if (error) return html`<div ...${shared} class="row wrong">${error}</div>`;
  if (path === null) return html`<div ...${shared} class="row quiet" aria-label="loading">…</div>`;
  const has = isOpen || known?.children > 0;
  const badge = known?.children > 0 ? count(known.children) : known?.is_ephemeral ? "ephemeral" : "";
  const classes = ["row", isActive && "active", known?.is_ephemeral && "ephemeral"].filter(Boolean).join(" ");
  return html`
    <div
      ...${shared}
      class=${classes}
      aria-expanded=${has ? String(isOpen) : undefined}
      aria-label=${labelOf(row)}
      onClick=${(event) => (event.target.classList.contains("twist") ? toggle(path, isOpen) : choose(path, event.ctrlKey || event.metaKey))}
    >
      <span class="twist" aria-hidden="true"></span>
      ${isMarked !== undefined && html`<span class=${isMarked ? "mark on" : "mark"} aria-hidden="true"></span>`}
      <span class="name">${path === "/" ? "/" : oneLine(nameIn(path))}</span>
      <span class="badge" aria-hidden="true">${badge}</span>
    </div>
  `;
}

/** Tree. `wanted` is the row to show, `{ row }`, a new object for each request. */
export function Tree({ nodes, selected, wanted }) {
  const box = useRef(null);
  const [scroll, setScroll] = useState(0);
  const [view, setView] = useState(600);
  const [active, activate] = useState({ row: 0, path: "/" });
  // Reading the number of changes renders the tree again.
  const changes = nodes.changes.value;
  const { length } = nodes;
  const marks = marked.value;
  const scale = new Scale(length, view);
  const position = scale.positionOf(scroll);
  const first = Math.max(0, Math.floor(position / ROW_PX) - MARGIN);
  const last = Math.min(length - 1, Math.ceil((position + view) / ROW_PX) + MARGIN);

  useLayoutEffect(() => {
    const sizes = new ResizeObserver(() => setView(box.current.clientHeight));
    sizes.observe(box.current);
    return () => sizes.disconnect();
  }, []);

  useEffect(() => {
    const timer = setTimeout(() => nodes.ensure(first, last), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [first, last, changes]);

  const show = (row) => {
    const top = row * ROW_PX;
    const now = scale.positionOf(box.current.scrollTop);
    if (top < now) box.current.scrollTop = scale.scrollTopOf(top);
    else if (top + ROW_PX > now + view) box.current.scrollTop = scale.scrollTopOf(top + ROW_PX - view);
  };

  useEffect(() => {
    if (wanted === null) return;
    const row = nodes.rowOf(wanted.path) ?? wanted.row;
    activate({ row, path: wanted.path });
    show(row);
  }, [wanted]);

  // The active row follows its znode when rows before it appear or disappear.
  const activeRow = Math.min((active.path !== null ? nodes.rowOf(active.path) : null) ?? active.row, length - 1);

  const move = (row) => {
    const to = Math.max(0, Math.min(row, length - 1));
    activate({ row: to, path: nodes.rowAt(to).path });
    show(to);
  };
  const choose = (path, isAdded = false) => {
    activate({ row: nodes.rowOf(path) ?? activeRow, path });
    if (isAdded || marks !== null) toggleMark(path);
    else location.hash = linkTo(path);
  };
  const toggle = (path, isOpen) => (isOpen ? nodes.close(path) : nodes.open(path));

  const press = (event) => {
    const isAdding = event.key === " " && event.ctrlKey;
    if ((event.ctrlKey && !isAdding) || event.metaKey || event.altKey) return;
    const { path, isOpen, known } = nodes.rowAt(activeRow);
    const rows = Math.max(1, Math.floor(view / ROW_PX) - 1);
    const steps = {
      ArrowDown: () => move(activeRow + 1),
      ArrowUp: () => move(activeRow - 1),
      PageDown: () => move(activeRow + rows),
      PageUp: () => move(activeRow - rows),
      Home: () => move(0),
      End: () => move(length - 1),
      ArrowRight: () => {
        if (isOpen) move(activeRow + 1);
        else if (path !== null && known?.children > 0) nodes.open(path);
      },
      ArrowLeft: () => {
        if (path === null) return;
        if (isOpen && path !== "/") nodes.close(path);
        else if (path !== "/") move(nodes.rowOf(parentOf(path)) ?? 0);
      },
      Enter: () => path !== null && choose(path),
      " ": () => path !== null && choose(path, isAdding),
      ...(marks !== null && { Escape: () => (marked.value = null) }),
    };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    step();
  };

  const rows = [];
  for (let number = first; number <= last; number += 1) {
    const row = nodes.rowAt(number);
    const top = number * ROW_PX - position + scroll;
    rows.push(html`
      <${Row}
        key=${row.path ?? `row ${number}`}
        row=${row}
        number=${number}
        top=${top}
        isActive=${number === activeRow}
        isSelected=${row.path !== null && row.path === selected}
        isMarked=${marks === null || row.path === null ? undefined : marks.has(row.path)}
        choose=${choose}
        toggle=${toggle}
      />
    `);
  }
  return html`
    <div
      ref=${box}
      class="tree"
      role="tree"
      tabindex="0"
      aria-label="Znodes"
      title="Ctrl-click or Ctrl-Space selects several znodes"
      aria-activedescendant=${`row-${activeRow}`}
      onKeyDown=${press}
      onScroll=${(event) => setScroll(event.target.scrollTop)}
    >
      <div class="rows" role="presentation" style=${{ height: `${scale.height}px` }}>${rows}</div>
    </div>
  `;
}
