// Differences between two moments, and the tree at a moment.

import { html, useState } from "../../vendor/preact.js";
import { user } from "../../lib/ask.js";
import { decode64, prettyJson, textOf } from "../../lib/data.js";
import { Diff } from "../../lib/diff.js";
import { bytes, count, linkTo, moment, oneLine, visible } from "../../lib/text.js";
import { Button, PathLink, Table } from "../../lib/ui.js";
import { beginDraft, fetchData } from "../znodes/draft.js";

/** Rows of a list. */
export const ROWS = 200;
/** Characters of data in a row. */
const SHOWN = 160;

/** Bytes of stored data, or null. */
const bytesOf = (data) => (data?.base64 === undefined ? null : decode64(data.base64));

export function Bit({ data }) {
  if (data === null || data === undefined) return html`<span class="quiet">–</span>`;
  if (data.base64 === undefined) return `${bytes(data.size)}, not stored`;
  const raw = decode64(data.base64);
  if (raw.length === 0) return html`<span class="quiet">empty</span>`;
  const text = textOf(raw, false);
  if (text === null) return `${bytes(raw.length)}, not text`;
  const cut = [...text.slice(0, 2 * SHOWN)].slice(0, SHOWN).join("");
  return html`<code class="bit">${visible(cut)}${cut.length < text.length && "…"}</code>`;
}

/** Text for a comparison. JSON has one value per line, so that changed values are visible. */
function comparable(data) {
  const raw = bytesOf(data);
  const text = raw === null ? (data ? null : "") : textOf(raw, false);
  return text === null ? null : (prettyJson(text) ?? text);
}

/** Button that opens the editor with past data, if the data is stored and the visitor may write. */
export function EditWith({ path, data, children }) {
  const old = bytesOf(data);
  if (old === null || user.value === null) return null;
  const edit = async () => {
    const present = await fetchData(path);
    beginDraft({ path, ...present, past: old });
    location.hash = linkTo(path);
  };
  return html`<${Button} act=${edit}>${children}<//>`;
}

/** Differences of the data of one znode. */
export function Compared({ one, children }) {
  const [isOpen, open] = useState(false);
  const [before, after] = [comparable(one.before?.data), comparable(one.after?.data)];
  return html`
    <details open=${isOpen} onToggle=${(event) => open(event.target.open)}>
      <summary>${one.kind}</summary>
      ${isOpen &&
      (before === null || after === null
        ? html`<p class="quiet">The data is not stored, or is not text.</p>`
        : html`<${Diff} before=${before} after=${after} label=${`Differences of ${oneLine(one.path)}`} />`)}
      ${isOpen && children}
    </details>
  `;
}

/** Result of a request, or the reason of its refusal. */
export function Found({ title, caption, answer, heads, empty, rowOf }) {
  if (answer === undefined) return null;
  if (answer.reason) return html`<h2>${title}</h2><p class="wrong">${answer.reason.message}</p>`;
  const { results, next } = answer.value;
  return html`
    <h2>${title}</h2>
    ${next && html`<p class="quiet">Only the first ${ROWS} are shown.</p>`}
    <${Table} caption=${caption} heads=${heads} rows=${results.map((one) => ({ key: one.path, cells: rowOf(one) }))} empty=${empty} />
  `;
}

export const differenceOf = (one) => [
  html`<${PathLink} path=${one.path} view="history" />`,
  html`<${Compared} one=${one}><${EditWith} path=${one.path} data=${one.before?.data}>Edit with the earlier data<//><//>`,
  html`<${Bit} data=${one.before?.data} />`,
  html`<${Bit} data=${one.after?.data} />`,
];

export const znodeOf = (one) => [
  html`<${PathLink} path=${one.path} view="history" />`,
  count(one.version),
  moment(one.mtime_ms),
  html`<${Bit} data=${one.data} />`,
];

