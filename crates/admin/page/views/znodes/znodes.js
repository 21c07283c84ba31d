// View of the tree, with one selected znode.

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { user } from "../../lib/ask.js";
import { useRefresh } from "../../lib/state.js";
import { oneLine, parentOf } from "../../lib/text.js";
import { Marked, marked } from "./subtrees/marked.js";
import { Nodes } from "./nodes.js";
import { Tree } from "./tree.js";
import { Znode } from "./znode.js";

/** Pause in typing after which the filter is applied. */
const PAUSE_MS = 150;

/** Box that filters the children of the selected znode, or its siblings if it does not have children. */
function Filter({ nodes, path }) {
  // Reading the number of changes renders the box again.
  nodes.changes.value;
  const row = nodes.rowOf(path);
  const { isOpen, known } = row === null ? {} : nodes.rowAt(row);
  const filtered = isOpen || known?.children > 0 ? path : parentOf(path);
  const [text, type] = useState("");
  const timer = useRef(null);
  useEffect(() => type(nodes.branchOf(filtered)?.like ?? ""), [filtered]);
  const change = (event) => {
    const like = event.target.value;
    type(like);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => nodes.filter(filtered, like.trim()), PAUSE_MS);
  };
  const label = `Filter the children of ${oneLine(filtered)}`;
  return html`
    <input
      type="search"
      class="filter"
      aria-label=${label}
      title=${label}
      placeholder=${`Filter ${oneLine(filtered)}`}
      spellcheck=${false}
      value=${text}
      onInput=${change}
    />
  `;
}

/** The view. */
export function Znodes({ path, part }) {
  const model = useRef(null);
  model.current ??= new Nodes();
  const nodes = model.current;
  const [wanted, want] = useState(null);
  const identity = user.value;
  const before = useRef(identity);

  useEffect(() => {
    let isOver = false;
    const reveal = async () => {
      if (before.current !== identity) {
        before.current = identity;
        await nodes.forget();
      }
      const row = await nodes.reveal(path);
      if (!isOver && row !== null) want({ row, path });
    };
    reveal();
    return () => {
      isOver = true;
    };
  }, [path, identity]);

  useRefresh((signal) => nodes.refresh(signal));
  useEffect(() => () => (marked.value = null), []);

  return html`
    <h1 class="hidden">Znodes</h1>
    <div class="split">
      <section class="branch" aria-label="Tree">
        <${Filter} nodes=${nodes} path=${path} />
        <${Marked} changed=${(other) => nodes.changed(other)} />
        <${Tree} nodes=${nodes} selected=${path} wanted=${wanted} />
      </section>
      <${Znode} key=${path} path=${path} part=${part} changed=${(other) => nodes.changed(other)} />
    </div>
  `;
}
