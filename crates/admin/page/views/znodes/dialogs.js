// Dialogs that create and delete znodes and change ACLs. Each change names the version that it replaces.

import { html, useState } from "../../vendor/preact.js";
import { change, visit } from "../../lib/ask.js";
import { openForm } from "../../lib/dialog.js";
import { oneLine } from "../../lib/text.js";
import { Field, say } from "../../lib/ui.js";

const KINDS = [
  ["persistent", "persistent"],
  ["sequential", "persistent, with a number at the end of its name"],
  ["container", "container: deleted when it has no children any more"],
  ["ttl", "with a TTL: deleted after this time without changes and children"],
  ["ttl-sequential", "with a TTL, and a number at the end of its name"],
];

/** Reason why a kind is missing. */
const NO_EPHEMERALS = "Ephemeral znodes are missing: an ephemeral znode ends with its session, and the session of this page ends with the page.";

const ACLS = [
  ["open", "everybody has all permissions"],
  ["creator-and-readers", "I have all permissions, others may read"],
  ["creator", "only I have permissions"],
  ["custom", "these entries"],
];

const PERMISSIONS = [
  ["c", "create"],
  ["d", "delete"],
  ["r", "read"],
  ["w", "write"],
  ["a", "admin"],
];

const options = (pairs) => pairs.map(([value, label]) => html`<option value=${value}>${label}</option>`);

/** Bytes of the chosen file, or of the text if no file was chosen. */
async function bodyOf({ data, file }) {
  const isFile = file instanceof File && file.size > 0;
  const max = visit.peek().data_bytes_max;
  if (isFile && file.size > max) throw new Error(`the file has more than ${max} bytes`);
  return isFile ? new Uint8Array(await file.arrayBuffer()) : new TextEncoder().encode(data);
}

/** Paths above a znode, from the root. */
function above(path) {
  const names = path.split("/").slice(1, -1);
  return names.map((_, at) => `/${names.slice(0, at + 1).join("/")}`);
}

/** Creates a znode. If its parent does not exist, it also creates the znodes above it. */
async function create(path, parameters, body, isComplete) {
  const make = (at, own, data) => change("POST", "node", { path: at, ...own }, data);
  try {
    return await make(path, parameters, body);
  } catch (error) {
    if (error.code !== "NoNode" || !isComplete) throw error;
  }
  for (const parent of above(path)) {
    try {
      await make(parent, { kind: "persistent", acl: parameters.acl }, new Uint8Array());
    } catch (error) {
      // It exists, or this identity may not create it. The last request then reports the reason.
      if (error.code !== "NodeExists" && error.code !== "NoAuth") throw error;
    }
  }
  return make(path, parameters, body);
}

/** Fields for the kind of a znode and its ACL. */
function KindAndAcl() {
  const [kind, change] = useState("persistent");
  const [acl, choose] = useState("open");
  return html`
    <${Field} label="Kind" hint=${NO_EPHEMERALS}>
      <select name="kind" value=${kind} onChange=${(event) => change(event.target.value)}>${options(KINDS)}</select>
    <//>
    ${kind.startsWith("ttl") &&
    html`<${Field} label="TTL, in seconds" hint="The servers must have extendedTypesEnabled=true."><input name="seconds" type="number" min="0.001" step="any" required /><//>`}
    <${Field} label="ACL">
      <select name="acl" value=${acl} onChange=${(event) => choose(event.target.value)}>${options(ACLS)}</select>
    <//>
    ${acl === "custom" && html`<${AclRows} acl=${[{ scheme: "auth", id: "", perms: "cdrwa" }]} name="entries" />`}
  `;
}

/** Opens the dialog to create a znode below a path. `after` receives the path of the new znode. */
export function createBelow(path, after) {
  const start = path === "/" ? "/" : `${path}/`;
  openForm({
    title: `Create below ${oneLine(path)}`,
    isKept: true,
    body: html`
      <${Field} label="Name" hint="a/b/c creates znodes at several levels.">
        <input name="name" required autocomplete="off" spellcheck=${false} />
      <//>
      <label class="check"><input type="checkbox" name="parents" checked /> Create missing parents</label>
      <${KindAndAcl} />
      <${Field} label="Data, as text"><textarea name="data" rows="5" spellcheck=${false}></textarea><//>
      <${Field} label="Or data from a file"><input type="file" name="file" /><//>
    `,
    label: "Create",
    act: async ({ name, parents, kind, seconds, acl, entries, ...data }) => {
      const ttl = seconds === undefined ? {} : { ttl: Math.max(1, Math.round(Number(seconds) * 1000)) };
      const properties = { kind, ...ttl, acl: acl === "custom" ? entries : acl };
      const made = await create(start + name, properties, await bodyOf(data), parents === "on");
      say(`Created ${oneLine(made.path)}`);
      await after(made.path);
    },
  });
}

/** Rows of an ACL: scheme, id and permissions. */
function AclRows({ acl, name: field = "acl" }) {
  const [rows, set] = useState(acl.map((entry, key) => ({ ...entry, key })));
  // Several events may arrive before the rows are rendered again.
  const replace = (at, change) => set((now) => now.map((row, index) => (index === at ? { ...row, ...change(row) } : row)));
  const add = () => set((now) => [...now, { scheme: "world", id: "anyone", perms: "r", key: Math.max(-1, ...now.map(({ key }) => key)) + 1 }]);
  const toggle = (at, letter) =>
    replace(at, ({ perms }) => {
      const wanted = (one) => (one === letter ? !perms.includes(one) : perms.includes(one));
      return { perms: PERMISSIONS.map(([one]) => one).filter(wanted).join("") };
    });
  const line = ({ scheme, id, perms, key }, at) => html`
    <fieldset key=${key} class="entry">
      <legend class="hidden">Entry ${at + 1}</legend>
      <input aria-label="Scheme" value=${scheme} spellcheck=${false} required onInput=${(event) => replace(at, () => ({ scheme: event.target.value }))} />
      <input aria-label="Id" value=${id} spellcheck=${false} onInput=${(event) => replace(at, () => ({ id: event.target.value }))} />
      <span class="perms">
        ${PERMISSIONS.map(
          ([letter, name]) => html`
            <label><input type="checkbox" checked=${perms.includes(letter)} onChange=${() => toggle(at, letter)} /> ${name}</label>
          `,
        )}
      </span>
      <button type="button" onClick=${() => set((now) => now.filter((_, index) => index !== at))}>Remove entry ${at + 1}</button>
    </fieldset>
  `;
  const value = JSON.stringify(rows.map(({ scheme, id, perms }) => ({ scheme: scheme.trim(), id: id.trim(), perms })));
  return html`
    ${rows.map(line)}
    <input type="hidden" name=${field} value=${value} />
    <button type="button" onClick=${add}>Add an entry</button>
  `;
}

/** Opens the dialog to change an ACL. */
export function editAcl(path, { acl, stat }, after) {
  openForm({
    title: `ACL of ${oneLine(path)}`,
    isKept: true,
    body: html`
      <p class="quiet">For yourself, use the scheme auth without an id. Replaces version ${stat.aversion} of the ACL.</p>
      <${AclRows} acl=${acl} />
    `,
    label: "Save",
    act: async ({ acl: entries }) => {
      await change("PUT", "acl", { path, version: stat.aversion }, entries);
      say("Saved the ACL");
      await after();
    },
  });
}

/** Opens the dialog to delete a znode. */
export function remove(path, { stat }, after) {
  openForm({
    title: `Delete ${oneLine(path)}?`,
    body: html`<p>Deletes the znode if its version is still ${stat.version}. You cannot undo this.</p>`,
    label: "Delete",
    isDanger: true,
    act: async () => {
      await change("DELETE", "node", { path, version: stat.version });
      say(`Deleted ${oneLine(path)}`);
      await after();
    },
  });
}
