// One znode: its data, Stat and ACL, and the permitted changes.

import { html, useState } from "../../vendor/preact.js";
import { json, user, visit, wholeData } from "../../lib/ask.js";
import { decode64 } from "../../lib/data.js";
import { useRefresh } from "../../lib/state.js";
import { bytes, count, linkTo, moment, oneLine, parentOf } from "../../lib/text.js";
import { Button, Facts, say, Table } from "../../lib/ui.js";
import { withoutUnsaved } from "../../lib/unsaved.js";
import { Data } from "./data.js";
import { createBelow, editAcl, remove } from "./dialogs.js";
import { beginDraft, draft } from "./draft.js";
import { Editor } from "./editor.js";
import { Past } from "../history/past.js";
import { removeSubtrees } from "./subtrees/remove.js";
import { exportSubtrees, importBelow, placeElsewhere } from "./subtrees/transfer.js";

const PERMISSIONS = { c: "create", d: "delete", r: "read", w: "write", a: "admin" };

function Crumbs({ path }) {
  const parts = path.split("/").filter((part) => part !== "");
  const links = parts.map((part, at) => {
    const below = `/${parts.slice(0, at + 1).join("/")}`;
    const isLast = at === parts.length - 1;
    return html`
      ${at > 0 && html`<span aria-hidden="true">/</span>`}
      <a href=${linkTo(below)} aria-current=${isLast ? "page" : undefined}>${oneLine(part)}</a>
    `;
  });
  return html`<nav class="crumbs" aria-label="Path"><a href=${linkTo("/")}>/</a>${links}</nav>`;
}

function statOf(stat) {
  const rows = [
    ["Data", `version ${stat.version}, ${bytes(stat.data_length)}`],
    ["Changed", `${moment(stat.mtime)} · ${stat.mzxid}`],
    ["Created", `${moment(stat.ctime)} · ${stat.czxid}`],
    ["Children", `${count(stat.num_children)}, version ${stat.cversion} · ${stat.pzxid}`],
    ["ACL", `version ${stat.aversion}`],
  ];
  const owner = stat.ephemeral_owner;
  if (stat.is_ephemeral) rows.push(["Owner", html`<a href=${`#/sessions/${owner.replace("…", "")}`}>${owner}</a>`]);
  return rows;
}

function Acl({ acl }) {
  if (acl === null) return html`<p class="quiet">This identity may not see the ACL.</p>`;
  const rows = acl.map(({ scheme, id, perms }, at) => ({
    key: at,
    cells: [
      scheme,
      oneLine(id),
      html`<span title=${[...perms].map((letter) => PERMISSIONS[letter]).join(", ")}>${perms || "none"}</span>`,
    ],
  }));
  return html`<${Table} caption="ACL" heads=${["Scheme", "Id", "Permissions"]} rows=${rows} empty="empty" />`;
}

/** Permissions of this visitor, as far as the ACL shows them. */
function Permissions({ acl }) {
  if (acl === null) return html`<p class="quiet">This identity may not see its permissions.</p>`;
  const { identities } = visit.value;
  if (identities.some(({ scheme }) => scheme === "super")) return html`<p class="quiet">The super user has all permissions.</p>`;
  const isOwn = (entry) => entry.scheme === "world" || identities.some(({ scheme, id }) => scheme === entry.scheme && isSameId(entry, id));
  const letters = new Set(acl.filter(isOwn).flatMap(({ perms }) => [...perms]));
  const named = (has) => Object.keys(PERMISSIONS).filter((letter) => letters.has(letter) === has).map((letter) => PERMISSIONS[letter]);
  const missing = named(false);
  return html`
    <p class="quiet">
      Your permissions: ${named(true).join(", ") || "none"}.${missing.length > 0 && ` The ACL does not give you: ${missing.join(", ")}.`}
    </p>
  `;
}

/** Whether an entry names an identity. The server reports only the user of a digest identity. */
function isSameId(entry, id) {
  if (entry.scheme === "digest") return entry.id.split(":")[0] === id;
  return entry.id === id;
}

/** Buttons for changes. */
function Actions({ path, known, data, reload, changed }) {
  const exporting = html`<${Button} act=${() => exportSubtrees([path])}>Export<//>`;
  if (user.value === null) {
    return html`
      <p class="quiet">Read only. Log in with a ZooKeeper identity to change this znode.</p>
      <div class="actions">${exporting}</div>
    `;
  }
  const edit = async () => {
    const isCut = (data?.length ?? 0) < known.stat.data_length;
    const all = isCut ? await wholeData(path, known.stat) : (data ?? new Uint8Array());
    beginDraft({ path, version: known.stat.version, data: all });
  };
  const made = async (created) => {
    await changed(created);
    await reload();
  };
  const deleted = async () => {
    await changed(path);
    location.hash = linkTo(parentOf(path));
  };
  const moved = async (created) => {
    await changed(path);
    await changed(created);
    location.hash = linkTo(created);
  };
  const removal = () => (known.stat.num_children > 0 ? removeSubtrees([path], deleted) : remove(path, known, deleted));
  const ask = () => withoutUnsaved(removal);
  return html`
    <div class="actions">
      ${known.may_read && html`<${Button} act=${edit} id="edit-data">Edit data<//>`}
      <${Button} act=${() => createBelow(path, made)}>Create below<//>
      ${known.acl !== null && html`<${Button} act=${() => editAcl(path, known, reload)}>Edit ACL<//>`}
      ${path !== "/" && html`<${Button} act=${() => placeElsewhere("Copy", [path], made)}>Copy<//>`}
      ${path !== "/" && html`<${Button} act=${() => withoutUnsaved(() => placeElsewhere("Move", [path], moved))}>Move<//>`}
      ${exporting}<${Button} act=${() => importBelow(path, made)}>Import<//>
      ${path !== "/" && html`<${Button} kind="danger" act=${ask}>Delete<//>`}
    </div>
    <${Permissions} acl=${known.acl} />
  `;
}

/** Links to the parts of the pane. */
function Parts({ path, part }) {
  const link = (name, label) => html`<a href=${linkTo(path, "tree", name)} aria-current=${name === part ? "page" : undefined}>${label}</a>`;
  return html`<nav class="parts" aria-label="Parts of this znode">${link("", "Data")}${link("history", "History")}</nav>`;
}

/** Whether a znode is unchanged. */
const isSame = (one, other) => ["mzxid", "pzxid", "aversion", "num_children"].every((name) => one[name] === other[name]);

/** Pane of a znode. `changed` is called with a path that this page has created or deleted. */
export function Znode({ path, part, changed }) {
  const identity = user.value;
  const [state, show] = useState({ known: null, data: null, error: null, identity });
  const { known, data, error } = state;
  const isEditing = draft.value?.path === path;

  const load = async (signal) => {
    try {
      const found = await json("node", { path }, signal);
      if (signal?.aborted) return;
      show({ known: found, data: found.data === null ? null : decode64(found.data), error: null, identity });
    } catch (refusal) {
      if (signal?.aborted) return;
      show({ known: null, data: null, error: refusal.message, identity });
    }
  };

  useRefresh(
    async (signal) => {
      if (known === null || state.identity !== identity) {
        await load(signal);
        return;
      }
      try {
        const { stat } = await json("stat", { path }, signal);
        if (isSame(known.stat, stat)) return;
        await load(signal);
        if (known.stat.mzxid !== stat.mzxid) say(`${oneLine(path)} was changed: version ${stat.version}`);
      } catch (refusal) {
        if (!refusal.code || signal.aborted) throw refusal;
        if (refusal.code === "NoNode") await load(signal);
      }
    },
    [path, identity],
  );

  const head = html`
    <div class="head">
      <${Crumbs} path=${path} />
      ${known?.stat.is_ephemeral && html`<span class="chip">ephemeral</span>`}
      ${visit.value.has_history && html`<${Parts} path=${path} part=${part} />`}
    </div>
  `;
  // An open editor stays, whatever happens to the znode.
  const editor = isEditing && html`<${Editor} key="editor" after=${load} />`;
  if (known === null) {
    return html`
      <section class="pane" aria-label="Znode">
        ${head}
        ${error ? html`<p class="wrong" role="alert">${error}</p>` : html`<p class="quiet">Loading…</p>`}
        ${editor}
      </section>
    `;
  }
  if (part === "history") {
    return html`<section class="pane" aria-label="Znode">${head}<${Past} path=${path} stat=${known.stat} /></section>`;
  }
  return html`
    <section class="pane" aria-label="Znode">
      ${head}
      ${!isEditing && html`<${Actions} path=${path} known=${known} data=${data} reload=${load} changed=${changed} />`}
      <h2>Data</h2>
      ${editor || html`<${Data} key="data" path=${path} known=${known} data=${data} setData=${(all) => show({ ...state, data: all })} />`}
      <div class="pair">
        <div><h2>Stat</h2><${Facts} kind="stat" pairs=${statOf(known.stat)} /></div>
        <div><h2>ACL</h2><${Acl} acl=${known.acl} /></div>
      </div>
    </section>
  `;
}
