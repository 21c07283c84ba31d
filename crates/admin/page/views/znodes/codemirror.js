// CodeMirror in a shadow root. Its styles are constructed style sheets of the root, so the policy of the page does not
// have to permit inline styles.

import { html, useLayoutEffect, useRef } from "../../vendor/preact.js";
import { languageOf, problemOf } from "./formats.js";

/** Pause in typing after which the text is validated, in ms. */
const LINT_MS = 300;

function themeOf({ EditorView }) {
  return EditorView.theme({
    "&": { color: "var(--text)", backgroundColor: "var(--back)", fontSize: "0.92em", maxHeight: "60vh" },
    ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--text)" },
    ".cm-scroller": { fontFamily: "var(--mono)", overflow: "auto", minHeight: "12rem" },
    ".cm-cursor": { borderLeftColor: "var(--text)" },
    "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--select) !important" },
    ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--soft)" },
    ".cm-gutters": { backgroundColor: "var(--card)", color: "var(--quiet)", borderRight: "1px solid var(--line)" },
    ".cm-panels, .cm-tooltip": { backgroundColor: "var(--card)", color: "var(--text)", border: "1px solid var(--line)" },
    // The policy of the page does not permit the image of the library.
    ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--danger)" },
    ".cm-searchMatch": { backgroundColor: "var(--fresh)" },
    ".cm-button, .cm-textfield": { backgroundImage: "none", backgroundColor: "var(--card)", color: "var(--text)" },
  });
}

function highlightingOf({ HighlightStyle, syntaxHighlighting, tags }) {
  const style = HighlightStyle.define([
    { tag: [tags.propertyName, tags.attributeName, tags.definition(tags.propertyName)], color: "var(--accent)" },
    { tag: [tags.string, tags.attributeValue], color: "var(--second)" },
    { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--number)" },
    { tag: [tags.tagName, tags.keyword], color: "var(--accent)", fontWeight: "600" },
    { tag: [tags.comment, tags.meta], color: "var(--quiet)", fontStyle: "italic" },
    { tag: tags.invalid, color: "var(--danger)" },
  ]);
  return syntaxHighlighting(style);
}

/** Marks the first problem of the text. */
function linterOf({ linter }, format, found) {
  const check = async (view) => {
    const text = view.state.doc.toString();
    const problem = await problemOf(format, text);
    found(problem);
    if (problem === null) return [];
    const from = Math.min(problem.at, text.length);
    return [{ from, to: Math.min(from + 1, text.length), severity: "error", message: problem.message }];
  };
  return linter(check, { delay: LINT_MS });
}

function extensionsOf(library, { save, label, separator, changed }) {
  const { EditorView, EditorState, keymap, basics } = library;
  return [
    // Before the other keys, because one of them may use the same key.
    keymap.of([{ key: "Mod-s", preventDefault: true, run: () => (save(), true) }]),
    basics,
    EditorState.lineSeparator.of(separator),
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false" }),
    EditorView.updateListener.of((update) => update.docChanged && changed(update.state.sliceDoc())),
    themeOf(library),
    highlightingOf(library),
  ];
}

/**
 * Editor. It replaces its text with `text` when `edition` changes, and reports later changes with `onchange`. The line
 * ends of the text are kept. The library is loaded before.
 */
export function CodeMirror({ library, text, edition, format, label, onchange, onsave, onproblem }) {
  const place = useRef(null);
  const view = useRef(null);
  const language = useRef(null);
  const shown = useRef({ edition: null, separator: "\n" });
  const latest = useRef({});
  latest.current = { onchange, onsave, onproblem };
  if (shown.current.edition !== edition) shown.current = { edition, separator: text.includes("\r\n") ? "\r\n" : "\n" };
  const { separator } = shown.current;

  useLayoutEffect(() => {
    const { EditorView, EditorState, Compartment } = library;
    const root = place.current.shadowRoot ?? place.current.attachShadow({ mode: "open", delegatesFocus: true });
    language.current = new Compartment();
    const extensions = extensionsOf(library, {
      label,
      separator,
      save: () => latest.current.onsave(),
      changed: (now) => latest.current.onchange(now),
    });
    const state = EditorState.create({ doc: text, extensions: [...extensions, language.current.of([])] });
    view.current = new EditorView({ state, parent: root, root });
    view.current.focus();
    return () => view.current.destroy();
  }, [separator]);

  useLayoutEffect(() => {
    const { state } = view.current;
    if (state.sliceDoc() === text) return;
    view.current.dispatch({ changes: { from: 0, to: state.doc.length, insert: text } });
  }, [edition]);

  useLayoutEffect(() => {
    let isOver = false;
    const found = (problem) => latest.current.onproblem(problem);
    languageOf(format).then((support) => {
      if (isOver) return;
      const extensions = [support, linterOf(library, format, found)];
      view.current.dispatch({ effects: language.current.reconfigure(extensions) });
    });
    return () => {
      isOver = true;
    };
  }, [separator, format]);

  return html`<div ref=${place} class="editor"></div>`;
}
