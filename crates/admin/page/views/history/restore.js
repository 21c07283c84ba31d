// Restores a subtree: shows the plan first, and executes it after a confirmation.

import { html, useEffect, useState } from "../../vendor/preact.js";
import { change } from "../../lib/ask.js";
import { openForm } from "../../lib/dialog.js";
import { oneLine, plural } from "../../lib/text.js";
import { say } from "../../lib/ui.js";
import { makePlan } from "./plan.js";

/** Executes a step. The server refuses it if the version has changed, or without the permission. */
function execute({ path, kind, acl, data, version, aversion }) {
  if (kind !== undefined) return change("POST", "node", { path, kind, acl }, data);
  if (aversion !== undefined) return change("PUT", "acl", { path, version: aversion }, acl);
  if (data !== undefined) return change("PUT", "data", { path, version }, data);
  return change("DELETE", "node", { path, version });
}

/** The plan. `done` receives it. */
function Plan({ path, at, done }) {
  const [plan, show] = useState(null);
  const [error, fail] = useState(null);
  useEffect(() => {
    makePlan(path, at).then(
      (made) => {
        done(made);
        show(made);
      },
      (reason) => fail(reason.message),
    );
  }, []);
  if (error) return html`<p class="wrong" role="alert">Nothing can be restored: ${oneLine(error)}</p>`;
  if (plan === null) return html`<p role="status">Comparing…</p>`;
  const lines = plan.steps.map(({ text }) => html`<li><code>${oneLine(text)}</code></li>`);
  return html`
    ${plan.notes.map((note) => html`<p class="quiet">${note}</p>`)}
    <p role="status">${plural(plan.steps.length, "step", "steps")} to the state after ${at}. Nothing is changed yet.</p>
    <div class="plan" tabindex="0" role="region" aria-label="Steps"><ol>${lines}</ol></div>
  `;
}

/** Opens the dialog that restores the subtree to its state after a transaction. */
export function restoreSubtree(path, at) {
  let plan = null;
  const done = (made) => {
    plan = made;
  };
  openForm({
    title: `Restore ${oneLine(path)}`,
    body: html`<${Plan} path=${path} at=${at} done=${done} />`,
    label: "Restore",
    isDanger: true,
    act: async () => {
      if (plan === null) throw new Error("the plan is not complete");
      for (const [number, step] of plan.steps.entries()) {
        try {
          await execute(step);
        } catch (error) {
          const text = `step ${number + 1}, ${oneLine(step.text)}: ${error.message}`;
          throw new Error(`${text}. Steps executed before: ${number}. Close this dialog and open it again to make a new plan`);
        }
      }
      say(`Executed ${plural(plan.steps.length, "step", "steps")}`);
    },
  });
}
