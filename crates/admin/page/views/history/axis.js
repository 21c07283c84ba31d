// Time axis of the changes. It can be zoomed and dragged, also with the keyboard.

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { json } from "../../lib/ask.js";
import { count, moment } from "../../lib/text.js";

/** Width and height of the drawing, in its own units. */
const WIDTH = 1000;
const HEIGHT = 60;
/** Bars in the width of the axis. */
const BARS = 125;
/** Shortest shown time, in ms. */
const SPAN_MIN_MS = 20;
/** Factor of a step of the zoom. */
const ZOOM = 2;
/** Part of the shown time by which a step moves. */
const STEP = 0.2;
/** Distance in pixels within which a pointer takes a handle. */
const NEAR_PX = 8;
/** Pause after which the changes of the shown time are loaded, in ms. */
const PAUSE_MS = 250;

/** Time of a position. Position 0 is before the first change. */
const timeAt = (changes, at) => (at === 0 ? changes[0].time_ms - 1 : changes[at - 1].time_ms);

/** Number of changes until a time. */
function positionAt(changes, time) {
  const next = changes.findIndex(({ time_ms }) => time_ms > time);
  return next < 0 ? changes.length : next;
}

/** Time of the first recorded change of a path, or null. */
function useFirst(path, hasChanges) {
  const [first, show] = useState(null);
  useEffect(() => {
    show(null);
    if (!hasChanges) return undefined;
    const ending = new AbortController();
    json("history/changes", { path, recursive: true, limit: 1, oldest_first: true }, ending.signal).then(
      ({ results }) => !ending.signal.aborted && show(results[0]?.time_ms ?? null),
      () => {
        // Without it, the axis begins with the first loaded change.
      },
    );
    return () => ending.abort();
  }, [path, hasChanges]);
  return first;
}

function Bars({ changes, from, to }) {
  const counts = new Array(BARS).fill(0);
  for (const { time_ms } of changes) {
    const bar = Math.floor(((time_ms - from) / (to - from)) * BARS);
    if (bar >= 0 && bar < BARS) counts[bar] += 1;
  }
  const max = Math.log2(1 + Math.max(...counts, 1));
  const bar = (number, at) => {
    const height = number === 0 ? 0 : Math.max(6, (Math.log2(1 + number) / max) * (HEIGHT - 12));
    const place = { x: (at * WIDTH) / BARS, y: HEIGHT - height, width: WIDTH / BARS - 2, height };
    return number > 0 && html`<rect key=${at} class="axis-bar" ...${place} />`;
  };
  return html`<g>${counts.map(bar)}</g>`;
}

/**
 * Axis. `range` contains the two compared positions, and `slide` replaces them. `seek` shows the changes until a time,
 * or follows new changes for null. `older` loads an earlier page, unless it is null.
 */
export function Axis({ path, changes, range, slide, until, seek, older }) {
  const place = useRef(null);
  const drag = useRef(null);
  const [shown, zoom] = useState(null);
  const isEmpty = changes.length === 0;
  const first = useFirst(path, !isEmpty || until !== null);
  useEffect(() => zoom(null), [path]);

  const oldest = isEmpty ? (until ?? Date.now()) : changes[0].time_ms;
  const newest = isEmpty ? oldest : changes.at(-1).time_ms;
  const edge = Math.max(1, (newest - oldest) * 0.03);
  const { from, to } = shown ?? { from: oldest - edge, to: newest + edge };
  const begin = Math.min(first ?? oldest, oldest);
  const placeOf = (time) => ((time - from) / (to - from)) * WIDTH;

  const set = (start, span) => {
    const end = Math.max(Date.now(), newest);
    const length = Math.max(SPAN_MIN_MS, Math.min(span, (end - begin) * 1.1));
    const margin = length * 0.5;
    const left = Math.max(begin - margin, Math.min(start, end + margin - length));
    zoom({ from: left, to: left + length });
  };
  const zoomAt = (factor, centre = (from + to) / 2) => set(centre - (centre - from) * factor, (to - from) * factor);
  const move = (part) => set(from + (to - from) * part, to - from);
  const showAll = () => {
    const end = Math.max(Date.now(), newest);
    const margin = Math.max(1, (end - begin) * 0.03);
    zoom({ from: begin - margin, to: end + margin });
  };

  // The changes of the shown time are loaded.
  useEffect(() => {
    if (shown === null) return undefined;
    const timer = setTimeout(() => {
      if (to < oldest && begin < oldest) seek(to);
      else if (until !== null && to > Math.max(newest, until)) seek(to >= Date.now() ? null : to);
      else if (from < oldest && begin < oldest) older?.().catch(() => {});
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [shown, changes, until]);

  const timeOf = (event) => {
    const { left, width } = place.current.getBoundingClientRect();
    return from + ((event.clientX - left) / width) * (to - from);
  };
  const handleNear = (event) => {
    if (isEmpty) return null;
    const { left, width } = place.current.getBoundingClientRect();
    const distance = (at) => Math.abs(left + (placeOf(timeAt(changes, at)) / WIDTH) * width - event.clientX);
    const near = range.map((at, index) => ({ index, far: distance(at) })).sort((one, other) => one.far - other.far)[0];
    return near.far <= NEAR_PX ? near.index : null;
  };
  const down = (event) => {
    if (event.button !== 0) return;
    place.current.setPointerCapture(event.pointerId);
    drag.current = { x: event.clientX, from, handle: handleNear(event), hasMoved: false };
  };
  const pull = (event) => {
    const { current } = drag;
    if (current === null) return;
    current.hasMoved ||= Math.abs(event.clientX - current.x) > 2;
    if (!current.hasMoved) return;
    if (current.handle === null) {
      const { width } = place.current.getBoundingClientRect();
      set(current.from - ((event.clientX - current.x) / width) * (to - from), to - from);
    } else {
      const at = positionAt(changes, timeOf(event));
      slide((old) => old.map((before, index) => (index === current.handle ? at : before)));
    }
  };
  const up = (event) => {
    const { current } = drag;
    drag.current = null;
    if (current === null || current.hasMoved || isEmpty) return;
    const at = Math.max(1, positionAt(changes, timeOf(event)));
    slide(() => [at - 1, at]);
  };
  const turn = (event) => {
    event.preventDefault();
    zoomAt(event.deltaY > 0 ? ZOOM : 1 / ZOOM, timeOf(event));
  };
  const press = (event) => {
    const steps = {
      ArrowLeft: () => move(-STEP),
      ArrowRight: () => move(STEP),
      "+": () => zoomAt(1 / ZOOM),
      "=": () => zoomAt(1 / ZOOM),
      "-": () => zoomAt(ZOOM),
      Home: () => set(begin - (to - from) * 0.03, to - from),
      End: () => set(Date.now() - (to - from) * 0.97, to - from),
      0: showAll,
    };
    const step = steps[event.key];
    if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    step();
  };

  const ends = isEmpty ? [] : range.map((at) => placeOf(timeAt(changes, at)));
  const [left, right] = [Math.min(...ends), Math.max(...ends)];
  const inside = changes.filter(({ time_ms }) => time_ms >= from && time_ms <= to).length;
  const label = `Time axis from ${moment(from)} to ${moment(to)}, loaded changes: ${count(inside)}`;
  const unloaded = begin < oldest ? Math.min(WIDTH, placeOf(oldest)) : 0;
  const button = (text, act) => html`<button type="button" onClick=${act}>${text}</button>`;
  return html`
    <div
      ref=${place}
      class="axis"
      role="group"
      tabindex="0"
      aria-label=${label}
      title="Drag or arrow keys: move. Wheel, + or -: zoom. 0: everything. Click: compare a change"
      onKeyDown=${press}
      onWheel=${turn}
      onPointerDown=${down}
      onPointerMove=${pull}
      onPointerUp=${up}
      onPointerCancel=${() => (drag.current = null)}
    >
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        ${unloaded > 0 && html`<rect class="axis-unloaded" x="0" y="0" width=${unloaded} height=${HEIGHT} />`}
        ${ends.length > 0 && html`<rect class="axis-range" x=${left} y="0" width=${Math.max(1, right - left)} height=${HEIGHT} />`}
        <${Bars} changes=${changes} from=${from} to=${to} />
        ${ends.map((x, index) => html`<rect key=${index} class="axis-handle" x=${x - 1.5} y="0" width="3" height=${HEIGHT} />`)}
      </svg>
    </div>
    <div class="axis-ends">
      <span>${moment(from)}</span>
      <span class="ways" role="group" aria-label="Time axis">
        ${button("Earlier", () => move(-STEP))}${button("Zoom in", () => zoomAt(1 / ZOOM))}${button("Zoom out", () => zoomAt(ZOOM))}
        ${button("Later", () => move(STEP))}${button("Everything", showAll)}
      </span>
      <span>${moment(to)}</span>
    </div>
  `;
}
