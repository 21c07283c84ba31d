// Formats of the editor: highlighting, validation and formatting.

import { prettyJson } from "../../lib/data.js";

/** Formats: name, and label. */
export const FORMATS = [
  ["text", "Text"],
  ["json", "JSON"],
  ["yaml", "YAML"],
  ["xml", "XML"],
  ["properties", "Properties"],
  ["hex", "Hex"],
];

/** Label of a format. */
export const labelOf = (format) => FORMATS.find(([name]) => name === format)[1];

/** Loads a library of this page when it is needed. */
const codemirror = () => import("../../vendor/codemirror.js");
const yaml = () => import("../../vendor/yaml.js");

/** Language support of CodeMirror for a format. */
export async function languageOf(format) {
  const { json, xml, yaml: yamlLanguage, properties, StreamLanguage } = await codemirror();
  if (format === "json") return json();
  if (format === "xml") return xml();
  if (format === "yaml") return yamlLanguage();
  if (format === "properties") return StreamLanguage.define(properties);
  return [];
}

function jsonProblem(text) {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    const at = Number(/position (\d+)/.exec(error.message)?.[1] ?? text.length);
    return { at: Math.min(at, text.length), message: error.message };
  }
}

async function yamlProblem(text) {
  const { parseAllDocuments } = await yaml();
  const documents = parseAllDocuments(text, { prettyErrors: false });
  const all = Array.isArray(documents) ? documents.flatMap(({ errors }) => errors) : [];
  return all.length === 0 ? null : { at: all[0].pos[0], message: all[0].message };
}

/** Finds the first place that the parser of the highlighting does not understand. */
async function xmlProblem(text) {
  const { xmlLanguage } = await codemirror();
  let problem = null;
  let roots = 0;
  xmlLanguage.parser.parse(text).iterate({
    enter: (node) => {
      if (node.name === "Element" && node.node.parent?.name === "Document") roots += 1;
      const isWrong = node.type.isError || /^Mis(matched|sing)CloseTag$/.test(node.name);
      if (isWrong) problem ??= { at: node.from, message: node.type.isError ? "unexpected text" : "the close tag does not match" };
    },
  });
  if (problem === null && roots !== 1) return { at: 0, message: `the document must have one root element, not ${roots}` };
  return problem;
}

function propertiesProblem(text) {
  const match = /(^|[^\\])(\\\\)*\\u(?![0-9a-fA-F]{4})/.exec(text);
  return match ? { at: match.index, message: "\\u must be followed by 4 hex digits" } : null;
}

function hexProblem(text) {
  const wrong = /[^0-9a-fA-F\s]/.exec(text);
  if (wrong) return { at: wrong.index, message: "hex data may contain only the digits 0-9 and a-f" };
  const isOdd = text.replaceAll(/\s/g, "").length % 2 === 1;
  return isOdd ? { at: text.length, message: "the last byte has only one digit" } : null;
}

const PROBLEMS = {
  text: () => null,
  json: jsonProblem,
  yaml: yamlProblem,
  xml: xmlProblem,
  properties: propertiesProblem,
  hex: hexProblem,
};

/** Returns the first problem of a text, `{ at, message }`, or null. */
export async function problemOf(format, text) {
  if (text.trim() === "" && format !== "hex") return null;
  return PROBLEMS[format](text);
}

/** Describes a problem with its line and column. */
export function describe(text, { at, message }) {
  const before = text.slice(0, at).split("\n");
  return `line ${before.length}, column ${before.at(-1).length + 1}: ${message}`;
}

/** Puts each element without text on a separate line. Elements with text stay as they are. */
function prettyXml(text) {
  const tokens = text.match(/<!--[\s\S]*?-->|<!\[CDATA\[[\s\S]*?\]\]>|<[^>]+>|[^<]+/g) ?? [];
  const isOpen = (token) => /^<[^!?/]/.test(token) && !token.endsWith("/>");
  const out = [];
  let depth = 0;
  const line = (part) => out.push("  ".repeat(depth) + part.trim());
  for (let at = 0; at < tokens.length; at += 1) {
    const token = tokens[at];
    if (token.trim() === "") continue;
    if (token.startsWith("</")) {
      depth -= 1;
      line(token);
    } else if (isOpen(token)) {
      const end = closeOf(tokens, at);
      const inside = tokens.slice(at + 1, end);
      if (inside.some((one) => !one.startsWith("<") && one.trim() !== "") || inside.length === 0) {
        line(tokens.slice(at, end + 1).join(""));
        at = end;
      } else {
        line(token);
        depth += 1;
      }
    } else line(token);
  }
  return `${out.join("\n")}\n`;
}

/** Position of the close tag of an open tag. */
function closeOf(tokens, start) {
  let depth = 0;
  for (let at = start; at < tokens.length; at += 1) {
    if (/^<[^!?/]/.test(tokens[at]) && !tokens[at].endsWith("/>")) depth += 1;
    if (tokens[at].startsWith("</")) depth -= 1;
    if (depth === 0) return at;
  }
  return tokens.length - 1;
}

async function prettyYaml(text) {
  const { parseAllDocuments } = await yaml();
  return parseAllDocuments(text).map(String).join("---\n");
}

const PRETTY = {
  json: (text) => `${prettyJson(text)}\n`,
  yaml: prettyYaml,
  xml: prettyXml,
  properties: (text) => text.replaceAll(/[ \t]+$/gm, ""),
  hex: (text) => text.replaceAll(/\s/g, "").replaceAll(/(..)(?=.)/g, "$1 ").replaceAll(/((?:.. ){15}..) /g, "$1\n"),
};

/** Whether a format has a formatter. */
export const isPretty = (format) => Object.hasOwn(PRETTY, format);

/** Formats a text without a problem. */
export async function pretty(format, text) {
  const problem = await problemOf(format, text);
  if (problem) throw new Error(`cannot format: ${describe(text, problem)}`);
  return PRETTY[format](text);
}
