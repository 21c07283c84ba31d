// Dialogs. One is open at a time.

import { html, signal, useLayoutEffect, useRef, useState } from "../vendor/preact.js";

/** The open dialog: a function that returns its content, or null. */
const open = signal(null);

/** Opens a dialog with this content. */
export function openDialog(content) {
  open.value = content;
}

export function closeDialog() {
  open.value = null;
}

/** Whether a dialog is open. */
export const isDialogOpen = () => open.peek() !== null;

/** Place of the open dialog. */
export function DialogPlace() {
  return open.value === null ? null : html`<${Dialog} key=${open.value}>${open.value()}<//>`;
}

/** Modal dialog. A form in it with the attribute `data-keep` is not closed without a question once it has changed. */
function Dialog({ children }) {
  const box = useRef(null);
  const [isAsking, ask] = useState(false);
  const [hasChanged, change] = useState(false);
  useLayoutEffect(() => {
    const node = box.current;
    const before = document.activeElement;
    node.showModal();
    return () => {
      node.close();
      before?.focus?.();
    };
  }, []);
  const isKept = () => hasChanged && box.current.querySelector("[data-keep]") !== null;
  const leave = (event) => {
    event?.preventDefault();
    if (isKept()) ask(true);
    else closeDialog();
  };
  // The browser closes a dialog on the second Escape without an event that can be cancelled.
  const press = (event) => {
    if (event.key === "Escape") leave(event);
  };
  const question = html`
    <div class="question" role="alert">
      <p>The text in this form is not saved.</p>
      <div class="actions">
        <button type="button" onClick=${() => ask(false)}>Keep editing</button>
        <button type="button" class="danger" onClick=${closeDialog}>Discard the text</button>
      </div>
    </div>
  `;
  return html`
    <dialog
      ref=${box}
      aria-labelledby="dialog-title"
      onKeyDown=${press}
      onCancel=${leave}
      onInput=${() => change(true)}
      onClick=${(event) => event.target.closest("[data-close]") && leave()}
    >
      ${children}${isAsking && question}
    </dialog>
  `;
}

/**
 * Content of a dialog with a form. `act` receives the fields of the form. Its error is shown, and the dialog stays
 * open. `isKept` protects entered text.
 */
function FormContent({ title, body, label, act, isDanger, isKept, cancel = "Cancel" }) {
  const [error, fail] = useState(null);
  const [isBusy, wait] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const own = open.peek();
    const fields = Object.fromEntries(new FormData(event.target));
    wait(true);
    fail(null);
    try {
      await act(fields);
      // The action may have opened another dialog.
      if (open.peek() === own) closeDialog();
    } catch (refusal) {
      fail(refusal.message);
      wait(false);
    }
  };
  return html`
    <form method="dialog" onSubmit=${submit} data-keep=${isKept ? "" : undefined}>
      <h2 id="dialog-title">${title}</h2>
      ${body}
      ${error && html`<p class="wrong" role="alert">${error}</p>`}
      <div class="actions">
        <button type="button" data-close>${cancel}</button>
        <button type="submit" class=${isDanger ? "danger" : "primary"} disabled=${isBusy}>${label}</button>
      </div>
    </form>
  `;
}

/** Opens a dialog with a form. */
export function openForm(form) {
  openDialog(() => html`<${FormContent} ...${form} />`);
}

/** Opens a dialog that only informs. */
export function inform(title, text) {
  openForm({ title, body: html`<p>${text}</p>`, label: "OK", act: () => {}, cancel: "Close" });
}
