// Edited data that is not saved. It stays here while the page refreshes everything else.

import { effect, signal } from "../../vendor/preact.js";
import { change, json, wholeData } from "../../lib/ask.js";
import { bytesOfHex, decode64, formatOf, hexOf, isEditable, isEqual, textOf } from "../../lib/data.js";
import { linkTo, oneLine } from "../../lib/text.js";
import { unsaved } from "../../lib/unsaved.js";

/**
 * The draft: `path`, the `version` that it replaces, `base` with the bytes of this version, `text` and `format`. The
 * editor reads `text` again when `edition` changes. After a conflict, `theirs` contains `{ version, data }`.
 */
export const draft = signal(null);

/** Data and version of a znode at present. */
export async function fetchData(path) {
  const node = await json("node", { path });
  if (!node.may_read) throw new Error("this identity may not read the data any more");
  const data = node.data_is_cut ? await wholeData(path, node.stat) : decode64(node.data ?? "");
  return { version: node.stat.version, data };
}

/** Begins to edit data. `past` contains bytes that replace the data in the editor, but are not saved. */
export function beginDraft({ path, version, data, past = data }) {
  const known = textOf(past, false);
  const isText = isEditable(known);
  draft.value = {
    path,
    version,
    base: data,
    text: isText ? known : hexOf(past),
    format: isText ? formatOf(path, known) : "hex",
    edition: 1,
    theirs: null,
    hash: linkTo(path),
  };
}

/** Bytes of a text in a format. */
export function bytesOf({ text, format }) {
  return format === "hex" ? bytesOfHex(text) : new TextEncoder().encode(text);
}

/** Whether a draft differs from the data that it replaces. */
export function isChanged(one) {
  try {
    return !isEqual(bytesOf(one), one.base);
  } catch {
    // Incomplete hex data.
    return true;
  }
}

export function update(part) {
  if (draft.peek() !== null) draft.value = { ...draft.peek(), ...part };
}

/** Replaces the text in the editor. */
export function replaceText(text, part = {}) {
  update({ text, edition: draft.peek().edition + 1, ...part });
}

/** Changes the format. Converts the text from and to hex. */
export function setFormat(format) {
  const one = draft.peek();
  if ((format === "hex") === (one.format === "hex")) {
    update({ format });
    return;
  }
  const bytes = bytesOf(one);
  const text = format === "hex" ? hexOf(bytes) : textOf(bytes, false);
  if (format !== "hex" && !isEditable(text)) throw new Error("the data is not text, so it can only be edited as hex");
  replaceText(text, { format });
}

/** Ends editing without a question. */
export function endDraft() {
  draft.value = null;
}

/** Saves the draft over its version. Returns the new version, or null after a conflict. */
export async function saveDraft() {
  const one = draft.peek();
  const body = bytesOf(one);
  try {
    const { stat } = await change("PUT", "data", { path: one.path, version: one.version }, body);
    endDraft();
    return stat.version;
  } catch (error) {
    if (error.code !== "BadVersion") throw error;
    update({ theirs: await fetchData(one.path) });
    return null;
  }
}

/** Makes the other client's version the one that the draft replaces. */
export function acceptTheirs(text) {
  const { theirs } = draft.peek();
  const part = { version: theirs.version, base: theirs.data, theirs: null };
  if (text === undefined) update(part);
  else replaceText(text, part);
}

effect(() => {
  const one = draft.value;
  const isUnsaved = one !== null && isChanged(one);
  const before = unsaved.peek();
  if (isUnsaved && before === null) unsaved.value = { what: `The data of ${oneLine(one.path)}`, hash: one.hash };
  if (!isUnsaved && before !== null) unsaved.value = null;
});
