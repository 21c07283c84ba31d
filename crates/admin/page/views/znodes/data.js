// Data of a znode as text, JSON or hex.

import { html, signal, useEffect, useRef, useState } from "../../vendor/preact.js";
import { wholeData } from "../../lib/ask.js";
import { hexDump, offerFile, prettyJson, textOf } from "../../lib/data.js";
import { bytes, nameIn, visible } from "../../lib/text.js";
import { Button } from "../../lib/ui.js";

/** Chosen view of data, also for the next znode. */
const chosen = signal(null);

/** Views of these bytes, `[name, text]`, the most readable first. */
function viewsOf(data, isCut) {
  const text = textOf(data, isCut);
  const pretty = text !== null && !isCut ? prettyJson(text) : null;
  const isObject = pretty !== null && /^[[{]/.test(pretty);
  const found = [];
  if (text !== null) found.push(["Text", () => visible(text)]);
  if (pretty !== null) found[isObject ? "unshift" : "push"](["JSON", () => visible(pretty)]);
  found.push(["Hex", () => hexDump(data)]);
  return found;
}

/** Data of a znode. `known` is the answer about it, and `data` the known part of its bytes. */
export function Data({ path, known, data, setData }) {
  const place = useRef(null);
  const [first] = useState(known.stat.mzxid);
  const { mzxid } = known.stat;
  useEffect(() => {
    if (mzxid === first || !place.current) return;
    // An animation begins again when the class is set again.
    place.current.classList.remove("fresh");
    void place.current.offsetWidth;
    place.current.classList.add("fresh");
  }, [mzxid]);
  if (!known.may_read) return html`<p class="quiet">This identity may not read the data and the children.</p>`;
  if (known.data === null) return html`<p class="quiet">No data (null).</p>`;
  if (data.length === 0) return html`<p class="quiet">Empty.</p>`;
  const isCut = data.length < known.stat.data_length;
  const all = viewsOf(data, isCut);
  const [name, text] = all.find(([one]) => one === chosen.value) ?? all[0];
  const load = async () => setData(await wholeData(path, known.stat));
  const save = async () => offerFile(nameIn(path) || "root", isCut ? await wholeData(path, known.stat) : data);
  const button = ([one]) => html`
    <button key=${one} type="button" aria-pressed=${String(one === name)} onClick=${() => (chosen.value = one)}>${one}</button>
  `;
  return html`
    <div class="tools">
      <div class="ways" role="group" aria-label="Show data as">${all.map(button)}</div>
      <${Button} act=${save}>Download<//>
    </div>
    <pre ref=${place} class="data" tabindex="0" role="region" aria-label=${`Data as ${name}`}>${text()}</pre>
    ${isCut &&
    html`
      <p class="quiet">
        The first ${bytes(data.length)} of ${bytes(known.stat.data_length)}. <${Button} act=${load}>Show all data<//>
      </p>
    `}
  `;
}
