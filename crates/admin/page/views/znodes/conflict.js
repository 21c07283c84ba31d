// Choice after another client has changed the data: overwrite its version, or combine both.

import { html } from "../../vendor/preact.js";
import { textOf } from "../../lib/data.js";
import { isComparable, lineDiff, merge } from "../../lib/diff.js";
import { visible } from "../../lib/text.js";
import { Button, say } from "../../lib/ui.js";
import { acceptTheirs, draft, endDraft } from "./draft.js";

/** Text of a version, with the lines marked that differ from the base. */
function Column({ title, text, base }) {
  const isMarked = base !== undefined && isComparable(text, base);
  const lines = isMarked ? lineDiff(base, text).filter(({ kind }) => kind !== "gone") : text.split("\n").map((line) => ({ kind: "same", text: line }));
  return html`
    <section aria-label=${title}>
      <h3>${title}</h3>
      <pre class="data" tabindex="0" role="region" aria-label=${`Text: ${title}`}>${lines.map(
        ({ kind, text: line }) => html`<span class=${`line-${kind}`}>${`${visible(line)}\n`}</span>`,
      )}</pre>
    </section>
  `;
}

/** The three versions, and the choice. */
export function Conflict({ save }) {
  const { theirs, base, text: mine, version, format } = draft.value;
  const [theirText, baseText] = [theirs.data, base].map((data) => (format === "hex" ? null : textOf(data, false)));
  const isText = theirText !== null && baseText !== null;
  const overwrite = async () => {
    acceptTheirs();
    await save();
  };
  const combine = () => {
    const { text, isConflict } = merge({ base: baseText, mine, theirs: theirText });
    acceptTheirs(text);
    say(isConflict ? "Both changed the same lines: choose between the marked lines" : "Combined. Check the text, then save it");
  };
  return html`
    <section class="conflict" aria-label="Conflict">
      <h2>Another client has changed the data</h2>
      <p role="alert">
        Your text replaces version ${version}, but the znode now has version ${theirs.version}. Nothing was saved.
      </p>
      ${isText
        ? html`
            <div class="columns">
              <${Column} title=${`Theirs: version ${theirs.version}`} text=${theirText} base=${baseText} />
              <${Column} title=${`Base: version ${version}`} text=${baseText} />
              <${Column} title="Mine: not saved" text=${mine} base=${baseText} />
            </div>
          `
        : html`<p class="quiet">The data is not text, so the versions are not shown.</p>`}
      <div class="actions">
        ${isText && isComparable(mine, theirText, baseText) && html`<${Button} kind="primary" act=${combine}>Merge<//>`}
        <${Button} kind="danger" act=${overwrite}>Overwrite version ${theirs.version}<//>
        <${Button} act=${endDraft}>Discard mine<//>
      </div>
    </section>
  `;
}
