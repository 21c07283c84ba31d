// Components that all views share. Preact inserts values as text, so names and data of others are never markup.

import { html, signal, useEffect, useState } from "../vendor/preact.js";
import { linkTo, oneLine } from "./text.js";

/** Path that links to its znode. */
export function PathLink({ path, view }) {
  return html`<a href=${linkTo(path, view)}>${oneLine(path)}</a>`;
}

/** Table. `rows` contains rows `{ key, class, cells }`. The first cell of a row is its head. */
export function Table({ caption, heads, rows, empty = "none" }) {
  const line = ({ key, class: name, cells }) => html`
    <tr key=${key} class=${name || undefined}>
      ${cells.map((cell, at) => (at === 0 ? html`<th scope="row">${cell}</th>` : html`<td>${cell}</td>`))}
    </tr>
  `;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${caption}>
      <table>
        <caption class="hidden">${caption}</caption>
        <thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
        <tbody>
          ${rows.length > 0
            ? rows.map(line)
            : html`<tr key="none"><td colspan=${heads.length} class="quiet">${empty}</td></tr>`}
        </tbody>
      </table>
    </div>
  `;
}

/** Names with values. `pairs` contains pairs of a name and a value. */
export function Facts({ pairs, kind = "facts" }) {
  const line = ([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`;
  return html`<dl class=${kind}>${pairs.map(line)}</dl>`;
}

/** Labelled field of a form. */
export function Field({ label, hint, children }) {
  return html`<label class="field"><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`;
}

/** Labelled choice. `options` contains pairs of a value and a label. */
export function Choice({ label, options, value, onchange }) {
  const list = options.map(([name, text]) => html`<option value=${name}>${text}</option>`);
  return html`
    <label class="inline">${label} <select value=${value} onChange=${(event) => onchange(event.target.value)}>${list}</select></label>
  `;
}

/** Button. `act` may return a promise, whose error is shown. */
export function Button({ act, kind, children, ...rest }) {
  const run = async (event) => {
    try {
      await act(event);
    } catch (error) {
      say(error.message);
    }
  };
  return html`<button type="button" class=${kind} onClick=${run} ...${rest}>${children}</button>`;
}

/** Message for the reader, also for a reader who uses a screen reader. */
const message = signal({ text: "", at: 0 });

/** Shows a message for some seconds. */
export function say(text) {
  message.value = { text, at: Date.now() };
}

/** Place of the message. */
export function Message() {
  const { text, at } = message.value;
  const [seen, see] = useState(0);
  useEffect(() => {
    const timer = setTimeout(() => see(at), 5000);
    return () => clearTimeout(timer);
  }, [at]);
  return html`<p id="said" class=${at !== 0 && seen !== at ? "said fresh" : "said"} role="status">${text}</p>`;
}
