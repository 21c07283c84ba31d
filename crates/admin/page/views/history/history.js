// View of the changes below a path. It follows new changes, and shows the tree at an earlier moment.

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { json, user } from "../../lib/ask.js";
import { linkTo, moment } from "../../lib/text.js";
import { Button, PathLink, Table } from "../../lib/ui.js";
import { Axis } from "./axis.js";
import { useChanges } from "./changes.js";
import { useClients } from "./clients.js";
import { Bit, differenceOf, Found, ROWS, znodeOf } from "./found.js";
import { restoreSubtree } from "./restore.js";

/** Zxid at a position of the sliders. Position 0 is the moment before the first change. */
function zxidAt(changes, at) {
  return at === 0 ? `0x${(BigInt(changes[0].zxid) - 1n).toString(16)}` : changes[at - 1].zxid;
}

function Slider({ label, changes, value, onchange }) {
  const change = changes[value - 1];
  const text = change ? `${moment(change.time_ms)} · ${change.zxid}` : "before the first change in this list";
  return html`
    <div class="slide">
      <b>${label}</b>
      <input
        type="range"
        min="0"
        max=${changes.length}
        step="1"
        value=${value}
        disabled=${changes.length === 0}
        aria-label=${label}
        aria-valuetext=${text}
        onInput=${(event) => onchange(Number(event.target.value))}
      />
      <output class="moment">${text}</output>
    </div>
  `;
}

function ChangeList({ changes, compare }) {
  const { describe, reasons } = useClients(changes);
  const rows = changes
    .map((change, at) => ({ change, at }))
    .reverse()
    .map(({ change, at }) => ({
      key: change.position,
      cells: [
        html`
          <button type="button" class="plain" title="Compare with the moment before this change" onClick=${() => compare(at)}>
            ${moment(change.time_ms)}
          </button>
        `,
        change.operation,
        html`<${PathLink} path=${change.path} view="history" />`,
        describe(change),
        html`<${Bit} data=${change.data} />`,
      ],
    }));
  return html`
    <h2>Changes, newest first</h2>
    ${reasons.map((reason) => html`<p class="quiet">Clients that other members serve are missing: ${reason}.</p>`)}
    <${Table} caption="Changes" heads=${["Time", "Operation", "Znode", "Client", "Data"]} rows=${rows} empty="no changes" />
  `;
}

/** Pause in the movement of the sliders after which the differences are loaded, in ms. */
const PAUSE_MS = 100;

/** Loads the differences and the tree when the compared moments change. */
function useMoments(path, changes, range) {
  const [found, show] = useState({});
  const ends = [Math.min(...range), Math.max(...range)].map((at) => Math.min(at, changes.length));
  const [from, to] = changes.length === 0 ? [null, null] : ends.map((at) => zxidAt(changes, at));
  useEffect(() => {
    if (to === null) {
      show({});
      return undefined;
    }
    const ending = new AbortController();
    const load = async () => {
      const [diff, tree] = await Promise.allSettled([
        json("history/diff", { path, from, to, limit: ROWS }, ending.signal),
        json("history/tree", { path, at: to, limit: ROWS }, ending.signal),
      ]);
      if (!ending.signal.aborted) show({ diff, tree, to });
    };
    const timer = setTimeout(load, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      ending.abort();
    };
  }, [path, from, to, user.value]);
  return { found, to };
}

/** Moment in the form of a field for date and time, in the reader's time zone, as the server parses it. */
function momentOf(text) {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}

/** Form with the path and the latest moment of the shown changes. */
function Place({ path, until, change, show }) {
  const [typed, type] = useState(path);
  useEffect(() => type(path), [path]);
  const submit = (event) => {
    event.preventDefault();
    show(typed.trim() || "/");
  };
  return html`
    <form class="tools" onSubmit=${submit}>
      <label class="inline">
        At and below <input
          type="text"
          name="path"
          value=${typed}
          spellcheck=${false}
          autocomplete="off"
          onInput=${(event) => type(event.target.value)}
        />
      </label>
      <label class="inline">
        Until <input type="datetime-local" step="1" value=${until} onChange=${(event) => change(event.target.value)} />
      </label>
      <button type="submit">Show</button>
      <a href=${linkTo(path)}>Present znode</a>
    </form>
  `;
}

/** Moment in the form of a field for date and time. The field has whole seconds. */
function fieldOf(ms) {
  return ms === null ? "" : moment(Math.ceil(ms / 1000) * 1000).replace(" ", "T");
}

/** Whether the page shows new changes when they occur. */
function Live({ live, until }) {
  if (until !== "") return html`<span class="chip">not live: only changes until a moment</span>`;
  if (live === null) return null;
  if (live.isOpen) return html`<span class="chip role-leader">live</span>`;
  return html`<span class="chip">not live: ${live.reason}</span>`;
}

/** The view of a path. */
export function History({ path }) {
  const [range, slide] = useState([0, 0]);
  const [until, change] = useState("");
  const total = useRef(0);
  // The sliders stay at their changes, and the last position follows new changes.
  const added = (place, number) => {
    const before = total.current;
    total.current = place === "all" ? number : before + number;
    if (place === "all") slide([Math.max(0, number - 1), number]);
    else if (place === "cut") {
      total.current = before - number;
      slide((old) => old.map((at) => Math.max(0, at - number)));
    } else if (place === "old") slide(([from, to]) => [from + number, to + number]);
    else slide(([from, to]) => (to === before ? [from === before - 1 ? from + number : from, to + number] : [from, to]));
  };
  const { changes, about, older, live } = useChanges(path, momentOf(until), added);
  const { found, to } = useMoments(path, changes, range);
  const show = (wanted) => {
    location.hash = linkTo(wanted, "history");
  };
  const compare = (at) => {
    slide([at, at + 1]);
    scrollTo({ top: 0 });
  };
  return html`
    <h1>History</h1>
    <${Place} path=${path} until=${until} change=${change} show=${show} />
    <div class="tools"><p class="quiet" role="status">${about}</p><${Live} live=${live} until=${until} /></div>
    <div class="card sliders">
      <${Axis}
        path=${path}
        changes=${changes}
        range=${range.map((at) => Math.min(at, changes.length))}
        slide=${slide}
        until=${until === "" ? null : Date.parse(until)}
        seek=${(ms) => change(fieldOf(ms))}
        older=${older}
      />
      <${Slider} label="From" changes=${changes} value=${range[0]} onchange=${(at) => slide((old) => [at, old[1]])} />
      <${Slider} label="To" changes=${changes} value=${range[1]} onchange=${(at) => slide((old) => [old[0], at])} />
      ${older && html`<${Button} act=${older}>Load older changes<//>`}
      ${to !== null && user.value !== null && html`<${Button} act=${() => restoreSubtree(path, to)}>Restore this tree<//>`}
    </div>
    <${Found}
      title="Differences"
      caption="Differences"
      answer=${found.diff}
      heads=${["Znode", "Change", "Before", "After"]}
      rowOf=${differenceOf}
      empty="no differences"
    />
    <${Found}
      title=${`The tree at ${found.to}`}
      caption="The tree at that moment"
      answer=${found.tree}
      heads=${["Znode", "Version", "Modified", "Data"]}
      rowOf=${znodeOf}
      empty="the znode did not exist"
    />
    <${ChangeList} changes=${changes} compare=${compare} />
  `;
}
