// Deletes a znode with everything below it. Shows the number of znodes first, and requires a typed confirmation.

import { html, useEffect, useState } from "../../../vendor/preact.js";
import { change, json } from "../../../lib/ask.js";
import { openForm } from "../../../lib/dialog.js";
import { count, join, nameIn, oneLine, plural } from "../../../lib/text.js";
import { Field, say } from "../../../lib/ui.js";

/** Largest number of znodes that an action of the page includes. Each needs a request. */
export const ZNODES_MAX = 2000;

/** Collects the znodes below a path, each after its parent, with their versions. */
export async function collect(path, signal, progress) {
  const found = [];
  const waiting = [path];
  while (waiting.length > 0) {
    const parent = waiting.pop();
    let after = "";
    let page;
    do {
      page = await json("children", { path: parent, after }, signal);
      for (const child of page.children) {
        const below = join(parent, child.name);
        found.push({ path: below, version: child.version });
        if (child.children > 0) waiting.push(below);
      }
      after = page.children.at(-1)?.name ?? "";
      progress(found.length);
    } while (page.has_more && after !== "" && found.length <= ZNODES_MAX);
    if (found.length > ZNODES_MAX) return { found, isComplete: false };
  }
  return { found, isComplete: true };
}

/** Collects subtrees: their roots and the znodes below them. */
async function collectAll(paths, signal, progress) {
  const all = [];
  for (const path of paths) {
    const { stat } = await json("stat", { path }, signal);
    all.push({ path, version: stat.version });
    const { found, isComplete } = await collect(path, signal, (number) => progress(all.length + number));
    all.push(...found);
    if (!isComplete || all.length > ZNODES_MAX) return { all, isComplete: false };
  }
  return { all, isComplete: true };
}

/** Number of znodes, and the field for the confirmation. */
function Confirmation({ paths, wanted, done }) {
  const [number, tell] = useState(0);
  const [result, show] = useState(null);
  const [error, fail] = useState(null);
  useEffect(() => {
    const ending = new AbortController();
    collectAll(paths, ending.signal, tell).then(
      (found) => {
        done(found);
        show(found);
      },
      (reason) => !ending.signal.aborted && fail(reason.message),
    );
    return () => ending.abort();
  }, []);
  if (error) return html`<p class="wrong" role="alert">Cannot count the znodes: ${error}</p>`;
  if (result === null) return html`<p role="status">Counting… ${plural(number, "znode", "znodes")} so far.</p>`;
  if (!result.isComplete) {
    return html`<p class="wrong" role="alert">There are more than ${count(ZNODES_MAX)} znodes. Use the command deleteall of zoarium shell.</p>`;
  }
  return html`
    <p role="status">Deletes ${plural(result.all.length, "znode", "znodes")}. You cannot undo this.</p>
    <${Field} label=${`Type ${wanted.label} to confirm`}>
      <input name="confirmed" required autocomplete="off" spellcheck=${false} />
    <//>
  `;
}

/** Opens the dialog to delete znodes with everything below them. */
export function removeSubtrees(paths, after) {
  let result = null;
  const done = (found) => {
    result = found;
  };
  const isOne = paths.length === 1;
  const text = isOne ? nameIn(paths[0]) : String(paths.length);
  const wanted = { text, label: isOne ? `the name ${oneLine(text)}` : `the number of subtrees, ${text},` };
  openForm({
    title: isOne ? `Delete ${oneLine(paths[0])} and everything below it?` : `Delete ${text} subtrees?`,
    body: html`
      ${!isOne && html`<ul class="paths">${paths.map((path) => html`<li>${oneLine(path)}</li>`)}</ul>`}
      <${Confirmation} paths=${paths} wanted=${wanted} done=${done} />
    `,
    label: "Delete all",
    isDanger: true,
    act: async ({ confirmed }) => {
      if (!result?.isComplete) throw new Error("the znodes are not counted yet");
      if (confirmed !== text) throw new Error("the typed text is different, so nothing was deleted");
      const { all } = result;
      // Each znode is deleted before its parent.
      for (const [at, one] of [...all].reverse().entries()) {
        try {
          await change("DELETE", "node", one);
        } catch (error) {
          if (error.code === "NoNode") continue;
          throw new Error(`deleted ${at} of ${all.length}, then ${one.path}: ${error.message}`);
        }
      }
      say(`Deleted ${plural(all.length, "znode", "znodes")}`);
      await after();
    },
  });
}
