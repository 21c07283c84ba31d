// Differences between texts, by lines.

import { html } from "../vendor/preact.js";
import { diffIndices, mergeDiff3 } from "../vendor/diff.js";
import { visible } from "./text.js";

/** Lines above which texts are not compared, because the time grows with the square of the lines. */
const LINES_MAX = 20_000;
/** Unchanged lines that are shown before and after a change. */
const CONTEXT = 3;

const linesOf = (text) => text.split("\n");

/** Whether texts are short enough to compare them. */
export const isComparable = (...texts) => texts.every((text) => linesOf(text).length <= LINES_MAX);

/** Lines of both texts in order, `{ kind, text }`. The kind is `same`, `gone` or `new`. */
export function lineDiff(before, after) {
  const [old, now] = [linesOf(before), linesOf(after)];
  const found = [];
  let at = 0;
  const add = (kind, lines) => found.push(...lines.map((text) => ({ kind, text })));
  for (const { buffer1, buffer2 } of diffIndices(old, now)) {
    add("same", old.slice(at, buffer1[0]));
    add("gone", old.slice(buffer1[0], buffer1[0] + buffer1[1]));
    add("new", now.slice(buffer2[0], buffer2[0] + buffer2[1]));
    at = buffer1[0] + buffer1[1];
  }
  add("same", old.slice(at));
  return found;
}

/** Combines the changes of two texts to their base. `isConflict` reports that lines contain marks for a choice. */
export function merge({ base, mine, theirs }) {
  const merged = mergeDiff3(linesOf(mine), linesOf(base), linesOf(theirs), {
    excludeFalseConflicts: true,
    label: { a: "mine", o: "base", b: "theirs" },
  });
  return { text: merged.result.join("\n"), isConflict: merged.conflict };
}

const SIGNS = { same: " ", gone: "-", new: "+" };
const SAID = { same: "", gone: "removed: ", new: "added: " };

/** Changed lines with some lines around them. */
function nearChanges(lines) {
  const isNear = (at) => lines.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some(({ kind }) => kind !== "same");
  const shown = lines.map((line, at) => ({ ...line, at })).filter(({ at }) => isNear(at));
  return shown.flatMap((line, index) => {
    const isGap = line.at !== (index === 0 ? 0 : shown[index - 1].at + 1);
    return isGap ? [{ kind: "gap", text: "…", at: `before ${line.at}` }, line] : [line];
  });
}

/** Differences between two texts. */
export function Diff({ before, after, label }) {
  if (!isComparable(before, after)) return html`<p class="quiet">The texts have more than ${LINES_MAX} lines, and are not compared.</p>`;
  const lines = nearChanges(lineDiff(before, after));
  if (lines.length === 0) return html`<p class="quiet">The texts are equal.</p>`;
  const line = ({ kind, text, at }) => html`
    <span key=${at} class=${`line-${kind}`}><span class="hidden">${SAID[kind]}</span>${`${SIGNS[kind] ?? " "} ${visible(text)}\n`}</span>
  `;
  return html`<pre class="data diff" tabindex="0" role="region" aria-label=${label}>${lines.map(line)}</pre>`;
}
