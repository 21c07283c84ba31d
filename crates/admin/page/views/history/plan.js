// Plan of the steps that restore a subtree. Each step names the version that it replaces. The command
// `zoarium restore-path` makes the same plan, and uses the same words.

import { json } from "../../lib/ask.js";
import { decode64, isEqual } from "../../lib/data.js";
import { oneLine } from "../../lib/text.js";

/** Steps above which the page does not execute a plan. Each step is a request. */
const STEPS_MAX = 500;
/** Differences in a page. */
const PAGE = 500;
/** Subtree of znodes that servers manage themselves. */
const SYSTEM = "/zookeeper";
/** End of a password hash in the answer to a user who may not read it. */
const MASKED = ":***";
/** Letters of permissions, with their bits. */
const LETTERS = [["c", 4], ["d", 8], ["r", 1], ["w", 2], ["a", 16]];

/** Entries of a recorded ACL, as a request contains them. */
function entriesOf(acl) {
  return acl.map(({ scheme, id, perms }) => ({
    scheme,
    id,
    perms: LETTERS.filter(([, bit]) => perms & bit).map(([letter]) => letter).join(""),
  }));
}

const isOpen = (acl) => acl.length === 1 && acl[0].scheme === "world" && acl[0].id === "anyone" && acl[0].perms === 31;

/** Reason why a past state cannot be restored by this page, or null. */
function obstacleOf({ data, acl, kind }) {
  if (data?.omitted) return "its data was not stored, or requires permission";
  if (!acl) return "its ACL was not stored";
  if (acl.some(({ id }) => id.endsWith(MASKED))) return "only super users see the password hashes in its ACL";
  if (kind === "KIND_TTL") return "the page cannot create znodes with a TTL: use zoarium restore-path";
  return null;
}

/** Bytes of recorded data. The page does not distinguish empty data and no data. */
const bytesOf = (data) => (data?.base64 === undefined ? new Uint8Array() : decode64(data.base64));

function sizeOf(data) {
  return `${bytesOf(data).length} bytes`;
}

/** Steps for one difference, `{ create, set, acl, remove }`. Throws the obstacle. */
function stepsOf({ path, before, after }) {
  const isEphemeral = (state) => state?.kind === "KIND_EPHEMERAL";
  if (isEphemeral(before) || isEphemeral(after)) return { note: `${path} is not changed: it is or was ephemeral` };
  if (!before) return { remove: { path, version: after.version, text: `delete ${path}, if the znode has version ${after.version}` } };
  const obstacle = obstacleOf(before);
  if (obstacle) throw new Error(`${path}: ${obstacle}`);
  const acl = JSON.stringify(entriesOf(before.acl));
  const list = entriesOf(before.acl).map(({ scheme, id, perms }) => `${scheme}:${id}:${perms}`).join(",");
  const setAcl = (aversion) => ({ path, aversion, acl, text: `setAcl ${path} ${list}, if the ACL has version ${aversion}` });
  if (!after) {
    const kind = before.kind === "KIND_CONTAINER" ? "container" : "persistent";
    const open = isOpen(before.acl);
    const create = { path, kind, acl: open ? "open" : "creator", data: bytesOf(before.data), text: `create ${path} (${sizeOf(before.data)})` };
    return { create, acl: open ? undefined : setAcl(0) };
  }
  const [old, now] = [bytesOf(before.data), bytesOf(after.data)];
  const isSame = !after.data?.omitted && isEqual(old, now);
  const text = `set ${path} (${sizeOf(before.data)}), if the data has version ${after.version}`;
  return {
    set: isSame ? undefined : { path, version: after.version, data: old, text },
    acl: JSON.stringify(entriesOf(after.acl ?? [])) === acl ? undefined : setAcl(after.aversion),
  };
}

/** All differences between a moment and the present. */
async function differences(path, at) {
  const { extent } = await json("history/changes", { path, limit: 1 });
  const all = [];
  let after = "";
  do {
    const page = await json("history/diff", { path, from: at, to: extent.head, limit: PAGE, ...(after ? { after } : {}) });
    if (page.hidden > 0) throw new Error("this identity may not read the whole subtree");
    all.push(...page.results);
    after = page.next;
  } while (after && all.length <= STEPS_MAX);
  return all;
}

/** Makes the plan: `steps` in their order, and `notes` about znodes that are not restored. */
export async function makePlan(path, at) {
  const isSystem = (other) => other === SYSTEM || other.startsWith(`${SYSTEM}/`);
  const notes = [];
  const found = [];
  for (const one of await differences(path, at)) {
    if (isSystem(one.path) && !isSystem(path)) continue;
    const steps = stepsOf(one);
    if (steps.note) notes.push(oneLine(steps.note));
    else found.push(steps);
  }
  // Parents are created before their children, and deleted after them.
  const writes = found.flatMap(({ create, set }) => [create, set]);
  const removals = found.map(({ remove }) => remove).reverse();
  const acls = found.map(({ acl }) => acl);
  const steps = [...writes, ...removals, ...acls].filter(Boolean);
  if (steps.length > STEPS_MAX) throw new Error(`the plan has more than ${STEPS_MAX} steps: use zoarium restore-path`);
  return { steps, notes };
}
