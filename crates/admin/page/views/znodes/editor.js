// Editor of the data of a znode, in the place of the data.

import { html, useEffect, useState } from "../../vendor/preact.js";
import { textOf } from "../../lib/data.js";
import { Diff } from "../../lib/diff.js";
import { openForm } from "../../lib/dialog.js";
import { bytes, oneLine } from "../../lib/text.js";
import { Button, Choice, say } from "../../lib/ui.js";
import { unsaved, withoutUnsaved } from "../../lib/unsaved.js";
import { CodeMirror } from "./codemirror.js";
import { Conflict } from "./conflict.js";
import { bytesOf, draft, endDraft, isChanged, replaceText, saveDraft, setFormat, update } from "./draft.js";
import { describe, FORMATS, isPretty, labelOf, pretty, problemOf } from "./formats.js";

/** Asks before data with a problem is saved. Resolves when the visitor confirms. */
function confirmProblem(format, text, problem, act) {
  openForm({
    title: `Save invalid ${labelOf(format)}?`,
    body: html`<p>The text is not valid ${labelOf(format)}: ${describe(text, problem)}.</p>`,
    label: "Save it anyway",
    isDanger: true,
    cancel: "Keep editing",
    act,
  });
}

function sizeOf(one) {
  try {
    return bytes(bytesOf(one).length);
  } catch {
    return "incomplete";
  }
}

/** Editor for the draft. `after` is called when the data was saved. */
export function Editor({ after }) {
  const one = draft.value;
  const [library, load] = useState(null);
  const [problem, find] = useState(undefined);
  const [isCompared, compare] = useState(false);
  const [error, fail] = useState(null);

  useEffect(() => {
    import("../../vendor/codemirror.js").then(load, (reason) => fail(`cannot load the editor: ${reason.message}`));
    return () => {
      endDraft();
      // The focus was in the editor.
      requestAnimationFrame(() => document.activeElement === document.body && document.getElementById("edit-data")?.focus());
    };
  }, []);

  if (one === null) return null;

  const write = async () => {
    fail(null);
    const version = await saveDraft();
    if (version === null) return;
    say(`Saved: version ${version}`);
    await after();
  };
  const save = async () => {
    const { format, text } = draft.peek();
    try {
      const found = await problemOf(format, text);
      if (found && format === "hex") throw new Error(describe(text, found));
      if (found) confirmProblem(format, text, found, write);
      else await write();
    } catch (refusal) {
      fail(refusal.message);
    }
  };
  const close = () => withoutUnsaved(endDraft);
  const press = (event) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    event.preventDefault();
    close();
  };
  const choose = (name) => {
    find(undefined);
    attempt(() => setFormat(name), fail);
  };
  const base = one.format === "hex" ? null : textOf(one.base, false);
  const format = async () => replaceText(await pretty(one.format, draft.peek().text));

  const valid = problem === undefined ? "Checking…" : `Valid ${labelOf(one.format)}`;
  const state = !problem ? valid : `Invalid ${labelOf(one.format)}: ${describe(one.text, problem)}`;
  return html`
    <div class="edit" onKeyDown=${press}>
      <div class="tools">
        <${Choice} label="Format" options=${FORMATS} value=${one.format} onchange=${choose} />
        ${isPretty(one.format) && html`<${Button} act=${() => attempt(format, fail)}>Format<//>`}
        <span class="quiet">Replaces version ${one.version} · ${sizeOf(one)}${unsaved.value && " · not saved"}</span>
      </div>
      ${library === null
        ? html`<p class="quiet">Loading the editor…</p>`
        : html`
            <${CodeMirror}
              library=${library}
              text=${one.text}
              edition=${one.edition}
              format=${one.format}
              label=${`Data of ${oneLine(one.path)}`}
              onchange=${(text) => update({ text })}
              onsave=${save}
              onproblem=${find}
            />
          `}
      <p class=${problem ? "wrong" : "quiet"} role="status">${one.format !== "text" && state}</p>
      ${error && html`<p class="wrong" role="alert">${error}</p>`}
      <div class="actions">
        <button type="button" class="primary" disabled=${!isChanged(one)} onClick=${save} aria-keyshortcuts="Control+S">Save</button>
        <button type="button" onClick=${close}>Close</button>
        ${base !== null &&
        html`<button type="button" aria-pressed=${String(isCompared)} onClick=${() => compare(!isCompared)}>Show changes</button>`}
      </div>
      ${isCompared && base !== null && html`<${Diff} before=${base} after=${one.text} label="Changes that are not saved" />`}
      ${one.theirs && html`<${Conflict} save=${save} />`}
    </div>
  `;
}

/** Runs `act` and shows its error. */
async function attempt(act, fail) {
  try {
    fail(null);
    await act();
  } catch (error) {
    fail(error.message);
  }
}
