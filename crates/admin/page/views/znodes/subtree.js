// Deletes a znode with everything below it. Shows the number of znodes first, and requires a typed confirmation.

import { html, useEffect, useState } from "../../vendor/preact.js";
import { change, json } from "../../lib/ask.js";
import { openForm } from "../../lib/dialog.js";
import { count, join, nameIn, oneLine, plural } from "../../lib/text.js";
import { Field, say } from "../../lib/ui.js";

/** Largest number of znodes that the page deletes. Each needs a request. */
const ZNODES_MAX = 2000;

/** Collects the znodes below a path, each after its parent, with their versions. */
async function collect(path, signal, progress) {
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

/** Number of znodes below a path, and the field for the confirmation. */
function Confirmation({ path, done }) {
  const [number, tell] = useState(0);
  const [result, show] = useState(null);
  const [error, fail] = useState(null);
  useEffect(() => {
    const ending = new AbortController();
    collect(path, ending.signal, tell).then(
      (all) => {
        done(all);
        show(all);
      },
      (reason) => !ending.signal.aborted && fail(reason.message),
    );
    return () => ending.abort();
  }, []);
  if (error) return html`<p class="wrong" role="alert">Cannot count the znodes: ${error}</p>`;
  if (result === null) return html`<p role="status">Counting… ${plural(number, "znode", "znodes")} below this znode.</p>`;
  if (!result.isComplete) {
    return html`<p class="wrong" role="alert">More than ${count(ZNODES_MAX)} znodes are below this znode. Use the command deleteall of zoarium shell.</p>`;
  }
  return html`
    <p role="status">Deletes ${plural(result.found.length + 1, "znode", "znodes")}. You cannot undo this.</p>
    <${Field} label=${`Type the name ${oneLine(nameIn(path))} to confirm`}>
      <input name="confirmed" required autocomplete="off" spellcheck=${false} />
    <//>
  `;
}

/** Opens the dialog to delete a znode that has children. */
export function removeSubtree(path, { stat }, after) {
  let result = null;
  const done = (all) => {
    result = all;
  };
  openForm({
    title: `Delete ${oneLine(path)} and everything below it?`,
    body: html`<${Confirmation} path=${path} done=${done} />`,
    label: "Delete all",
    isDanger: true,
    act: async ({ confirmed }) => {
      if (!result?.isComplete) throw new Error("the znodes are not counted yet");
      if (confirmed !== nameIn(path)) throw new Error("the typed name is different, so nothing was deleted");
      const all = [{ path, version: stat.version }, ...result.found];
      // Each znode is deleted before its parent.
      for (const [at, one] of all.reverse().entries()) {
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
