// View of the changes below a path. It follows new changes, and shows the tree at an earlier moment.

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { json, user } from "../../lib/ask.js";
import { useRefresh } from "../../lib/state.js";
import { count, linkTo, moment, oneLine } from "../../lib/text.js";
import { Button, PathLink, Table } from "../../lib/ui.js";
import { Bit, differenceOf, Found, ROWS, znodeOf } from "./found.js";
import { restoreSubtree } from "./restore.js";

/** Changes in a page. */
const CHANGES = 100;
/** Largest number of changes that the page keeps. */
const KEPT_MAX = 2000;

/** Client of a change, as far as this member knows it. */
function clientOf(change) {
  if (change.session === null) return "only administrators see the client";
  const named = change.identities.map((one) => (typeof one === "string" ? one : `${one.scheme}:${one.id}`));
  return oneLine([...named, change.client].filter((part) => part).join(" ")) || change.session;
}

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
        clientOf(change),
        html`<${Bit} data=${change.data} />`,
      ],
    }));
  return html`
    <h2>Changes, newest first</h2>
    <${Table} caption="Changes" heads=${["Time", "Operation", "Znode", "Client", "Data"]} rows=${rows} empty="no changes" />
  `;
}

/** Requests a page of changes, newest first. */
function fetchChanges(path, parameters, signal) {
  return json("history/changes", { path, recursive: true, limit: CHANGES, ...parameters }, signal);
}

/** Loads the differences and the tree when the sliders move. */
function useMoments(path, changes, range) {
  const [found, show] = useState({});
  useEffect(() => {
    if (changes.length === 0) {
      show({});
      return undefined;
    }
    const ending = new AbortController();
    const ends = [Math.min(...range), Math.max(...range)].map((at) => Math.min(at, changes.length));
    const [from, to] = ends.map((at) => zxidAt(changes, at));
    const asked = [
      json("history/diff", { path, from, to, limit: ROWS }, ending.signal),
      json("history/tree", { path, at: to, limit: ROWS }, ending.signal),
    ];
    Promise.allSettled(asked).then(([diff, tree]) => {
      if (!ending.signal.aborted) show({ diff, tree, to });
    });
    return () => ending.abort();
  }, [path, changes, ...range]);
  return found;
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

/**
 * Changes of a path, the oldest first. New changes are added while the page is open. `older` loads an earlier page,
 * unless it is null.
 */
function useChanges(path, until, added) {
  const [state, show] = useState({ changes: [], next: null, about: "Loading…", isLoaded: false, isRetried: false });
  const identity = user.value;
  const tell = ({ extent, hidden }, number, next) => {
    const secret = hidden > 0 ? ` Changes hidden from this identity: ${count(hidden)}.` : "";
    return `Changes up to ${extent.head}: ${count(number)}.${next ? " Older ones exist." : ""}${secret}`;
  };
  const load = async (signal) => {
    try {
      const answer = await fetchChanges(path, until === null ? {} : { until }, signal);
      if (signal.aborted) return;
      const changes = answer.results.reverse();
      const about = tell(answer, changes.length, answer.next);
      show({ changes, next: answer.next, about, isLoaded: true, isRetried: false });
      added("all", changes.length);
    } catch (error) {
      if (signal.aborted) return;
      // A server that builds its change history, or does not answer, will answer later.
      const isRetried = !(error.status < 500);
      show({ changes: [], next: null, about: error.message, isLoaded: false, isRetried });
      added("all", 0);
    }
  };
  useEffect(() => {
    const ending = new AbortController();
    show((old) => ({ ...old, about: "Loading…", isLoaded: false, isRetried: false }));
    load(ending.signal);
    return () => ending.abort();
  }, [path, until, identity]);

  // Changes after a chosen moment are not followed.
  useRefresh(
    async (signal) => {
      const { changes, isLoaded, isRetried, next } = state;
      if (isRetried) return load(signal);
      if (!isLoaded || until !== null) return;
      const newest = changes.at(-1)?.position;
      const answer = await fetchChanges(path, newest === undefined ? {} : { after: newest, oldest_first: true }, signal);
      if (signal.aborted || answer.results.length === 0) return;
      const all = [...changes, ...answer.results];
      show({ ...state, changes: all, about: tell(answer, all.length, next) });
      added("new", answer.results.length);
    },
    [path, until, identity],
  );

  const older = async () => {
    const answer = await fetchChanges(path, { after: state.next, ...(until === null ? {} : { until }) });
    const all = [...answer.results.reverse(), ...state.changes];
    show((old) => ({ ...old, changes: all, next: answer.next, about: tell(answer, all.length, answer.next) }));
    added("old", answer.results.length);
  };
  const hasOlder = state.next !== null && state.changes.length < KEPT_MAX;
  return { ...state, older: hasOlder ? older : null };
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
    else if (place === "old") slide(([from, to]) => [from + number, to + number]);
    else slide(([from, to]) => (to === before ? [from === before - 1 ? from + number : from, to + number] : [from, to]));
  };
  const { changes, about, older } = useChanges(path, momentOf(until), added);
  const found = useMoments(path, changes, range);
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
    <p class="quiet" role="status">${about}</p>
    <div class="card sliders">
      <${Slider} label="From" changes=${changes} value=${range[0]} onchange=${(at) => slide((old) => [at, old[1]])} />
      <${Slider} label="To" changes=${changes} value=${range[1]} onchange=${(at) => slide((old) => [old[0], at])} />
      ${older && html`<${Button} act=${older}>Load older changes<//>`}
      ${found.to && user.value !== null && html`<${Button} act=${() => restoreSubtree(path, found.to)}>Restore this tree<//>`}
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
