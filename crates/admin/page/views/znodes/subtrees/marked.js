// Selection of several znodes, and the actions for all of them.

import { html, signal } from "../../../vendor/preact.js";
import { user } from "../../../lib/ask.js";
import { plural } from "../../../lib/text.js";
import { Button } from "../../../lib/ui.js";
import { withoutUnsaved } from "../../../lib/unsaved.js";
import { removeSubtrees } from "./remove.js";
import { exportSubtrees, placeElsewhere, rootsOf } from "./transfer.js";

/** Paths of the selected znodes, or null while the tree selects only the shown one. */
export const marked = signal(null);

/** Selects a znode, or removes it from the selection. */
export function toggleMark(path) {
  const before = marked.peek() ?? new Set();
  const after = new Set(before);
  if (!after.delete(path)) after.add(path);
  marked.value = after;
}

/** Button that begins a selection, and the actions. `changed` is called with each changed path. */
export function Marked({ changed }) {
  const paths = marked.value === null ? [] : rootsOf([...marked.value]);
  const end = () => {
    marked.value = null;
  };
  const isOn = marked.value !== null;
  const toggle = () => {
    marked.value = isOn ? null : new Set();
  };
  const done = (places) => async (created) => {
    end();
    for (const path of [...places, created].filter(Boolean)) await changed(path);
  };
  const place = (verb) => () => withoutUnsaved(() => placeElsewhere(verb, paths, done(verb === "Move" ? paths : [])));
  const actions = html`
    <${Button} act=${() => exportSubtrees(paths)}>Export selected<//>
    ${user.value !== null &&
    html`
      <${Button} act=${place("Copy")}>Copy selected<//>
      <${Button} act=${place("Move")}>Move selected<//>
      <${Button} kind="danger" act=${() => withoutUnsaved(() => removeSubtrees(paths, done(paths)))}>Delete selected<//>
    `}
  `;
  return html`
    <div class="marked">
      <button type="button" aria-pressed=${String(isOn)} onClick=${toggle}>Select several</button>
      ${isOn && html`<span class="quiet" role="status">${plural(paths.length, "subtree", "subtrees")} selected</span>`}
      ${paths.length > 0 && actions}
    </div>
  `;
}
