// Changes: each a dialog, each with the version that was seen, so that nothing newer is overwritten.

import { change } from "./ask.js";
import { dialog, field, h, oneLine, say } from "./dom.js";
import { hexOf, textOf } from "./znode.js";

function bytesOf(text, isHex) {
  if (!isHex) return new TextEncoder().encode(text);
  const digits = text.replaceAll(/\s/g, "");
  if (!/^([0-9a-fA-F]{2})*$/.test(digits)) throw new Error("hex data consists of pairs of the digits 0-9 and a-f");
  return Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

const plainHex = (data) =>
  hexOf(data)
    .split("\n")
    .map((line) => line.slice(10, 58).trim())
    .join("\n");

export async function editData({ path, known, data, whole }, after) {
  let all = data ?? new Uint8Array();
  if (all.length < known.stat.data_length) {
    try {
      all = await whole();
    } catch (error) {
      say(error.message);
      return;
    }
  }
  const text = textOf(all, false);
  // A text area has one kind of line end, and a carriage return would be lost.
  const isHex = text === null || text.includes("\r") || text.includes("\0");
  const area = h("textarea", {
    name: "data",
    rows: "16",
    spellcheck: "false",
    autocomplete: "off",
    value: isHex ? plainHex(all) : text,
  });
  dialog(
    `Data of ${oneLine(path)}`,
    field(
      isHex ? "Data, in hex" : "Data, as text",
      area,
      `Replaces version ${known.stat.version}. If the version has changed, nothing is saved.`,
    ),
    "Save",
    async () => {
      const answer = await change("PUT", "data", { path, version: known.stat.version }, bytesOf(area.value, isHex));
      say(`Saved: version ${answer.stat.version}`);
      await after();
    },
  );
}

const options = (pairs) => pairs.map(([value, label]) => h("option", { value }, label));

export function createBelow({ path }, after) {
  const start = path === "/" ? "/" : `${path}/`;
  dialog(
    `Create below ${oneLine(path)}`,
    [
      field("Name", h("input", { name: "name", required: true, autocomplete: "off", spellcheck: "false" })),
      field(
        "Kind",
        h(
          "select",
          { name: "kind" },
          options([
            ["persistent", "persistent"],
            ["sequential", "persistent, with a number at the end of its name"],
            ["container", "container: deleted when it has no children any more"],
          ]),
        ),
      ),
      field(
        "ACL",
        h(
          "select",
          { name: "acl" },
          options([
            ["open", "everybody has all permissions"],
            ["creator-and-readers", "I have all permissions, others may read"],
            ["creator", "only I have permissions"],
          ]),
        ),
      ),
      field("Data, as text", h("textarea", { name: "data", rows: "5", spellcheck: "false" })),
    ],
    "Create",
    async ({ name, kind, acl, data }) => {
      const body = new TextEncoder().encode(data);
      const made = await change("POST", "node", { path: start + name, kind, acl }, body);
      say(`Created ${oneLine(made.path)}`);
      await after(made.path);
    },
  );
}

export function editAcl({ path, known }, after) {
  const area = h("textarea", {
    name: "acl",
    rows: "6",
    spellcheck: "false",
    value: known.acl.map(({ scheme, id, perms }) => `${scheme}:${id}:${perms}`).join("\n"),
  });
  dialog(
    `ACL of ${oneLine(path)}`,
    field("One entry per line", area, "scheme:id:cdrwa, such as world:anyone:r, or auth::cdrwa for yourself."),
    "Save",
    async () => {
      const lines = area.value.split("\n").filter((line) => line.trim() !== "");
      const entries = lines.map((line) => {
        const [scheme, ...rest] = line.trim().split(":");
        const perms = rest.pop() ?? "";
        return { scheme, id: rest.join(":"), perms };
      });
      await change("PUT", "acl", { path, version: known.stat.aversion }, JSON.stringify(entries));
      say("Saved the ACL");
      await after();
    },
  );
}

export function remove({ path, known }, after) {
  dialog(
    `Delete ${oneLine(path)}?`,
    h("p", {}, `Deletes the znode if its version is still ${known.stat.version}. You cannot undo this.`),
    "Delete",
    async () => {
      await change("DELETE", "node", { path, version: known.stat.version });
      say(`Deleted ${oneLine(path)}`);
      await after();
    },
    true,
  );
}
