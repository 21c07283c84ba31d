// Copies, moves, exports and imports subtrees. A file has the format of the commands `zoarium export` and
// `zoarium import`: a JSON object per line, parents before their children.

import { html, signal } from "../../../vendor/preact.js";
import { change, json, wholeData } from "../../../lib/ask.js";
import { decode64, encode64, isEqual, offerFile } from "../../../lib/data.js";
import { openForm } from "../../../lib/dialog.js";
import { join, nameIn, oneLine, parentOf, plural } from "../../../lib/text.js";
import { Field, say } from "../../../lib/ui.js";
import { collect, ZNODES_MAX } from "./remove.js";

/** Subtree of znodes that servers manage themselves. */
const SYSTEM = "/zookeeper";
/** Letters of permissions, with their bits. */
const LETTERS = [["c", 4], ["d", 8], ["r", 1], ["w", 2], ["a", 16]];

const isBelow = (path, above) => path === above || path.startsWith(above === "/" ? "/" : `${above}/`);
const isSystem = (path) => isBelow(path, SYSTEM);

/** Progress of the action of the open dialog. */
const progress = signal("");
const Progress = () => html`<p class="quiet" role="status">${progress.value}</p>`;

function openTransfer(form) {
  progress.value = "";
  openForm({ ...form, body: html`${form.body}<${Progress} />` });
}

/** Paths without those that are below another one. */
export const rootsOf = (paths) => paths.filter((path) => !paths.some((other) => other !== path && isBelow(path, other)));

/** Reads a znode completely. */
async function readZnode(path) {
  const { may_read, data, data_is_cut, stat, acl } = await json("node", { path });
  if (!may_read || acl === null) throw new Error(`${oneLine(path)}: this identity may not read the data and the ACL`);
  const isMasked = acl.some(({ scheme, id }) => scheme === "digest" && id.endsWith(":x"));
  if (isMasked) throw new Error(`${oneLine(path)}: this identity may not read the password hashes in the ACL`);
  const bytes = data_is_cut ? await wholeData(path, stat) : decode64(data ?? "");
  return { path, version: stat.version, isEphemeral: stat.is_ephemeral, acl, data: data === null ? null : bytes };
}

/** Reads subtrees, each znode after its parent. Ephemerals and the system's subtree are only counted. */
async function readSubtrees(paths) {
  const znodes = [];
  let ephemerals = 0;
  for (const root of paths) {
    const { found, isComplete } = await collect(root, undefined, () => {});
    if (!isComplete) throw new Error(`more than ${ZNODES_MAX} znodes: use the commands export, import and cp of zoarium`);
    for (const path of [root, ...found.map((one) => one.path)]) {
      if (isSystem(path) && !isSystem(root)) continue;
      const one = await readZnode(path);
      if (one.isEphemeral) ephemerals += 1;
      else znodes.push({ ...one, root });
      progress.value = `Read ${plural(znodes.length, "znode", "znodes")}`;
    }
  }
  return { znodes, ephemerals };
}

function skipped(ephemerals) {
  return ephemerals === 0 ? "" : `, without ${plural(ephemerals, "ephemeral", "ephemerals")}`;
}

/** Offers subtrees as a file. */
export async function exportSubtrees(paths) {
  const { znodes, ephemerals } = await readSubtrees(paths);
  const bitsOf = (letters) => LETTERS.reduce((sum, [letter, bit]) => sum + (letters.includes(letter) ? bit : 0), 0);
  const entry = ({ scheme, id, perms }) => ({ id, perms: bitsOf(perms), scheme });
  const line = ({ acl, data, path }) => JSON.stringify({ acl: acl.map(entry), data: data === null ? null : encode64(data), path });
  const name = paths.length === 1 ? nameIn(paths[0]) || "root" : "znodes";
  offerFile(`${name}.jsonl`, znodes.map((one) => `${line(one)}\n`).join(""));
  say(`Exported ${plural(znodes.length, "znode", "znodes")}${skipped(ephemerals)}`);
}

function create({ path, acl, data }) {
  const empty = data === null ? { data: "null" } : {};
  return change("POST", "node", { path, kind: "persistent", acl: JSON.stringify(acl), ...empty }, data ?? new Uint8Array());
}

/** Parses a line of a file. */
function parseLine(text, number, below) {
  const wrong = (reason) => new Error(`line ${number}: ${reason}`);
  let one;
  try {
    one = JSON.parse(text);
  } catch (error) {
    throw wrong(error.message);
  }
  const isEntry = (entry) => Number.isInteger(entry?.perms) && typeof entry.scheme === "string" && typeof entry.id === "string";
  if (typeof one?.path !== "string" || !one.path.startsWith("/")) throw wrong("the field path is missing");
  if (!Array.isArray(one.acl) || !one.acl.every(isEntry)) throw wrong("the field acl does not have the form that export writes");
  const lettersOf = (perms) => LETTERS.filter(([, bit]) => perms & bit).map(([letter]) => letter).join("");
  const acl = one.acl.map(({ scheme, id, perms }) => ({ scheme, id, perms: lettersOf(perms) }));
  let data = null;
  try {
    if (one.data !== null) data = decode64(one.data);
  } catch {
    throw wrong("the field data is not base64");
  }
  const path = one.path === "/" ? below : join(below, one.path.slice(1));
  return { path, acl, data };
}

/** Sets the data and the ACL of an existing znode. Each write names the version that it replaces. */
async function replace(one) {
  const now = await readZnode(one.path);
  const data = one.data ?? new Uint8Array();
  if (!isEqual(now.data ?? new Uint8Array(), data)) await change("PUT", "data", { path: one.path, version: now.version }, data);
  const { stat } = await json("stat", { path: one.path });
  if (JSON.stringify(now.acl) !== JSON.stringify(one.acl)) {
    await change("PUT", "acl", { path: one.path, version: stat.aversion }, JSON.stringify(one.acl));
  }
}

async function importFile(file, below, replaces) {
  const texts = (await file.text()).split("\n");
  const lines = texts.map((text, at) => (text.trim() === "" ? null : parseLine(text, at + 1, below))).filter(Boolean);
  if (lines.length > ZNODES_MAX) throw new Error(`the file has more than ${ZNODES_MAX} znodes: use the command import of zoarium`);
  const counts = { created: 0, replaced: 0, kept: 0 };
  const about = () => `${plural(counts.created, "znode", "znodes")} created, ${counts.replaced} replaced, ${counts.kept} kept unchanged`;
  // The root of a tree exists already.
  for (const one of lines.filter(({ path }) => path !== "/")) {
    try {
      await create(one);
      counts.created += 1;
    } catch (error) {
      if (error.code !== "NodeExists") throw new Error(`${oneLine(one.path)}: ${error.message}. Not finished: ${about()}`);
      if (replaces) await replace(one);
      counts[replaces ? "replaced" : "kept"] += 1;
    }
    progress.value = about();
  }
  return { about: about(), first: lines[0]?.path };
}

/** Opens the dialog to import a file below a path. */
export function importBelow(path, after) {
  openTransfer({
    title: `Import below ${oneLine(path)}`,
    body: html`
      <p class="quiet">The file was written by Export, or by the command <code>zoarium export</code>. Its paths continue this path.</p>
      <${Field} label="File"><input type="file" name="file" required /><//>
      <label class="check"><input type="checkbox" name="replaces" /> Replace the data and the ACL of znodes that exist</label>
    `,
    label: "Import",
    act: async ({ file, replaces }) => {
      const { about, first } = await importFile(file, path, replaces === "on");
      say(about);
      if (first !== undefined) await after(first);
    },
  });
}

/** Copies subtrees to new paths, and then deletes the originals of a move. */
async function copy(targets, isMove) {
  const { znodes, ephemerals } = await readSubtrees(targets.map(({ from }) => from));
  if (isMove && ephemerals > 0) throw new Error("the subtree contains ephemerals, which only their sessions can create. Nothing was moved");
  const toOf = new Map(targets.map(({ from, to }) => [from, to]));
  for (const [number, one] of znodes.entries()) {
    try {
      await create({ ...one, path: toOf.get(one.root) + one.path.slice(one.root.length) });
    } catch (error) {
      throw new Error(`${oneLine(one.path)}: ${error.message}. Copied before: ${number}. Nothing was deleted`);
    }
    progress.value = `Copied ${plural(number + 1, "znode", "znodes")}`;
  }
  for (const [number, { path, version }] of isMove ? [...znodes].reverse().entries() : []) {
    try {
      await change("DELETE", "node", { path, version });
    } catch (error) {
      throw new Error(`all znodes were copied, but after ${number} deletions, ${oneLine(path)}: ${error.message}`);
    }
    progress.value = `Deleted ${plural(number + 1, "original", "originals")}`;
  }
  return `${isMove ? "Moved" : "Copied"} ${plural(znodes.length, "znode", "znodes")}${skipped(ephemerals)}`;
}

/** Places of the copies. A single znode has a new path, and several ones have a new parent. */
function targetsOf(paths, to) {
  const place = to.trim().replace(/(.)\/+$/, "$1");
  if (!place.startsWith("/")) throw new Error("the path must begin with /");
  const targets = paths.map((from) => ({ from, to: paths.length === 1 ? place : join(place, nameIn(from)) }));
  const inside = targets.find(({ from, to: end }) => isBelow(end, from));
  if (inside) throw new Error(`${oneLine(inside.to)} is ${oneLine(inside.from)} itself or below it`);
  return targets;
}

/** Opens the dialog to copy or move subtrees. `verb` is `Copy` or `Move`. `after` receives the first new path. */
export function placeElsewhere(verb, paths, after) {
  const isOne = paths.length === 1;
  const start = isOne ? `${paths[0]}${verb === "Copy" ? "-copy" : ""}` : parentOf(paths[0]);
  openTransfer({
    title: `${verb} ${isOne ? oneLine(paths[0]) : plural(paths.length, "subtree", "subtrees")}`,
    isKept: true,
    body: html`
      <p class="quiet">
        Everything below is included, with data and ACLs. Clients cannot see the kinds and TTLs of znodes, so the new znodes are
        persistent. Ephemerals are not copied.${verb === "Move" && " The originals are deleted after all copies exist, if their versions are unchanged."}
      </p>
      <${Field} label=${isOne ? "New path" : "New parent"}>
        <input name="to" required autocomplete="off" spellcheck=${false} value=${start} />
      <//>
    `,
    label: verb,
    act: async ({ to }) => {
      const targets = targetsOf(paths, to);
      say(await copy(targets, verb === "Move"));
      await after(targets[0].to);
    },
  });
}
