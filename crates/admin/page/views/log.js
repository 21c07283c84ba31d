// Log of the last minutes.

import { html, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { json, user } from "../lib/ask.js";
import { useRefresh } from "../lib/state.js";
import { visible } from "../lib/text.js";
import { Choice } from "../lib/ui.js";

const LEVELS = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];

/** Distance from the end, in pixels, within which the list follows new lines. */
const END_PX = 8;

const levelOf = (line) => / (ERROR|WARN|INFO|DEBUG|TRACE) /.exec(line)?.[1] ?? "INFO";

/** Lines with a number of each, which is its key. The oldest stored line has the number `first`. */
function Lines({ lines, first, wanted, least }) {
  const box = useRef(null);
  const isAtEnd = useRef(true);
  const remember = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    isAtEnd.current = scrollTop + clientHeight >= scrollHeight - END_PX;
  };
  useLayoutEffect(() => {
    if (isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
  });
  const shown = lines
    .map((line, at) => ({ line, key: first + at, level: levelOf(line) }))
    .filter(({ line, level }) => line.toLowerCase().includes(wanted) && LEVELS.indexOf(level) <= least);
  const text = ({ line, key, level }) => html`<span key=${key} class=${`level-${level.toLowerCase()}`}>${`${visible(line)}\n`}</span>`;
  return html`
    <pre ref=${box} class="log" tabindex="0" role="region" aria-label="Log lines" onScroll=${remember}>${shown.map(text)}</pre>
  `;
}

/** The view. */
export function Log() {
  const [answer, show] = useState({ lines: [], lost: 0 });
  const [error, fail] = useState(null);
  const [wanted, want] = useState("");
  const [least, limit] = useState("TRACE");
  const name = user.value;
  useRefresh(
    async (signal) => {
      if (name === null) {
        show({ lines: [], lost: 0 });
        return;
      }
      try {
        const found = await json("log", undefined, signal);
        if (signal.aborted) return;
        show(found);
        fail(null);
      } catch (refusal) {
        if (signal.aborted) return;
        if (refusal.status === 0) throw refusal;
        show({ lines: [], lost: 0 });
        fail(refusal.message);
      }
    },
    [name],
  );
  const { lines, lost } = answer;
  const stored = `Lines since the start of the server: the last ${lines.length} are stored, ${lost} older ones are not.`;
  const about = name === null ? "The log contains clients and paths. Log in as an administrator to read it." : (error ?? stored);
  const levels = LEVELS.map((level) => [level, level.toLowerCase()]);
  return html`
    <h1>Log</h1>
    <div class="tools">
      <label class="inline">Lines with <input type="search" value=${wanted} onInput=${(event) => want(event.target.value)} /></label>
      <${Choice} label="Levels up to" options=${levels} value=${least} onchange=${limit} />
      <p class="quiet">${about}</p>
    </div>
    <${Lines} lines=${lines} first=${lost} wanted=${wanted.toLowerCase()} least=${LEVELS.indexOf(least)} />
  `;
}
