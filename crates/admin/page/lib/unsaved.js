// Text that is not saved. Nothing that would drop it happens without a question.

import { html, signal } from "../vendor/preact.js";
import { openForm } from "./dialog.js";
import { readAddress } from "./state.js";

/** Description of the unsaved text, such as "The data of /app", and its address. Null without such text. */
export const unsaved = signal(null);

/** Runs `act`, after a question if there is unsaved text. */
export function withoutUnsaved(act) {
  const text = unsaved.peek();
  if (text === null) {
    act();
    return;
  }
  openForm({
    title: "Discard unsaved text?",
    body: html`<p>${text.what} is not saved. If you continue, your changes are lost.</p>`,
    label: "Discard the text",
    isDanger: true,
    cancel: "Keep editing",
    act: () => {
      unsaved.value = null;
      act();
    },
  });
}

/** Follows the address. Returns to the address of unsaved text until the visitor has answered. */
function follow() {
  const text = unsaved.peek();
  if (text === null || location.hash === text.hash) {
    readAddress();
    return;
  }
  const wanted = location.hash;
  // This does not cause another event.
  history.pushState(null, "", text.hash);
  withoutUnsaved(() => {
    location.hash = wanted;
  });
}

/** Starts the protection of unsaved text. */
export function protectUnsaved() {
  addEventListener("hashchange", follow);
  addEventListener("beforeunload", (event) => {
    if (unsaved.peek() !== null) event.preventDefault();
  });
}
