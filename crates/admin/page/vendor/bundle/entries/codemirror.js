// Editor of the console, with the languages of its formats.

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, foldGutter, foldKeymap, indentOnInput } from "@codemirror/language";
import { lintKeymap } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import {
  drawSelection,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from "@codemirror/view";

export { json } from "@codemirror/lang-json";
export { xml, xmlLanguage } from "@codemirror/lang-xml";
export { yaml } from "@codemirror/lang-yaml";
export { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
export { properties } from "@codemirror/legacy-modes/mode/properties";
export { linter } from "@codemirror/lint";
export { Compartment, EditorState } from "@codemirror/state";
export { EditorView } from "@codemirror/view";
export { tags } from "@lezer/highlight";
export { keymap };

/** Extensions of every editor. */
export const basics = [
  lineNumbers(),
  highlightActiveLineGutter(),
  highlightSpecialChars(),
  history(),
  foldGutter(),
  drawSelection(),
  indentOnInput(),
  bracketMatching(),
  highlightActiveLine(),
  highlightSelectionMatches(),
  keymap.of([...defaultKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap, ...lintKeymap]),
];
