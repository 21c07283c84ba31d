// Tree of znodes as rows of a list. Only visible children are requested, in pages, so a list of a million children
// needs a few requests.

import { signal } from "../../vendor/preact.js";
import { json } from "../../lib/ask.js";
import { join, nameIn, parentOf } from "../../lib/text.js";

/** Children in a page. The server uses the same number. */
const PAGE = 200;
/** Number of open znodes that are checked for changes. */
const WATCHED_MAX = 24;
/** Number of pages of children that are kept for each znode. */
const PAGES_MAX = 12;

/** Open znode. `index` is its position among the shown children of its parent. */
class Branch {
  constructor(path, level, index) {
    this.path = path;
    this.level = level;
    this.index = index;
    this.like = "";
    this.total = 0;
    this.pzxid = null;
    this.error = null;
    this.pages = new Map();
    this.open = new Map();
  }

  /** Child at a position, or null if its page is not loaded. */
  child(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE] ?? null;
  }

  /** Position of a loaded child, or null. */
  indexOf(name) {
    for (const [number, page] of this.pages) {
      const at = page.findIndex((child) => child.name === name);
      if (at >= 0) return number * PAGE + at;
    }
    return null;
  }
}

/** Model of the list. */
export class Nodes {
  constructor() {
    this.root = new Branch("/", 1, 0);
    this.rootOpen = false;
    /** Number of changes. A component that reads it is rendered again. */
    this.changes = signal(0);
    this.segments = [];
    this.length = 0;
    this.loading = new Set();
    this.layOut();
  }

  /** Computes which rows belong to which children. Only open znodes need separate segments. */
  layOut() {
    this.segments = [];
    let row = 0;
    const add = (segment) => {
      this.segments.push({ ...segment, row });
      row += segment.length;
    };
    const fill = (branch) => {
      if (branch.error) {
        add({ length: 1, error: branch.error, branch });
        return;
      }
      let at = 0;
      const children = [...branch.open.values()].filter((child) => child.index !== null && child.index < branch.total);
      children.sort((one, other) => one.index - other.index);
      for (const child of children) {
        if (child.index > at) add({ length: child.index - at, branch, from: at });
        add({ length: 1, branch, from: child.index, opened: child });
        fill(child);
        at = child.index + 1;
      }
      if (branch.total > at) add({ length: branch.total - at, branch, from: at });
    };
    add({ length: 1, isRoot: true });
    if (this.rootOpen) fill(this.root);
    this.length = row;
    this.changes.value += 1;
  }

  segmentAt(row) {
    let low = 0;
    let high = this.segments.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.segments[middle].row <= row) low = middle;
      else high = middle - 1;
    }
    return this.segments[low];
  }

  /** Describes a row. The path is null while its page is loading. */
  rowAt(row) {
    const segment = this.segmentAt(row);
    if (segment.isRoot) {
      const known = { name: "", children: this.rootOpen ? this.root.total : 1, is_ephemeral: false };
      return { path: "/", level: 1, isOpen: this.rootOpen, known, size: 1, position: 1 };
    }
    const { branch } = segment;
    const level = branch.level + 1;
    if (segment.error) return { path: null, level, error: segment.error, size: 1, position: 1 };
    const index = segment.from + (row - segment.row);
    const known = branch.child(index);
    const path = known === null ? (segment.opened?.path ?? null) : join(branch.path, known.name);
    return { path, level, isOpen: Boolean(segment.opened), known, size: branch.total, position: index + 1 };
  }

  branchOf(path) {
    if (path === "/") return this.rootOpen ? this.root : null;
    let branch = this.rootOpen ? this.root : null;
    for (const name of path.slice(1).split("/")) branch = branch?.open.get(name) ?? null;
    return branch;
  }

  /** Row of a znode whose position is known, or null. */
  rowOf(path) {
    if (path === "/") return 0;
    const branch = this.branchOf(parentOf(path));
    const name = nameIn(path);
    const index = branch?.open.get(name)?.index ?? branch?.indexOf(name) ?? null;
    if (index === null) return null;
    const found = this.segments.find(
      (segment) => segment.branch === branch && !segment.error && segment.from <= index && index < segment.from + segment.length,
    );
    return found ? found.row + (index - found.from) : null;
  }

  /** Requests a page of children: the page with a number, or with a name. */
  async request(branch, { page, name }) {
    const key = `${branch.path} ${branch.like} ${page ?? name}`;
    if (this.loading.has(key)) return null;
    this.loading.add(key);
    try {
      const { like } = branch;
      const place = name === undefined ? { skip: page * PAGE } : { at: name };
      const answer = await json("children", { path: branch.path, like, ...place });
      if (branch.like !== like) return null;
      const number = answer.skip / PAGE;
      branch.pages.delete(number);
      branch.pages.set(number, answer.children);
      while (branch.pages.size > PAGES_MAX) branch.pages.delete(branch.pages.keys().next().value);
      branch.total = answer.total;
      branch.pzxid = answer.stat.pzxid;
      branch.error = null;
      return answer;
    } catch (error) {
      if (!error.code) throw error;
      if (error.status !== 0 && branch.pages.size === 0) branch.error = error.message;
      return null;
    } finally {
      this.loading.delete(key);
    }
  }

  /** Loads the pages of these rows. */
  async ensure(first, last) {
    const wanted = new Map();
    for (let row = first; row <= last && row < this.length; row += 1) {
      const segment = this.segmentAt(row);
      if (segment.isRoot || segment.error) continue;
      const index = segment.from + (row - segment.row);
      if (segment.branch.child(index) !== null) continue;
      const page = Math.floor(index / PAGE);
      wanted.set(`${segment.branch.path} ${page}`, { branch: segment.branch, page });
    }
    if (wanted.size === 0) return;
    const requests = [...wanted.values()].map(({ branch, page }) => this.request(branch, { page }));
    if ((await Promise.all(requests)).some(Boolean)) this.layOut();
  }

  async open(path) {
    if (this.branchOf(path)) return;
    let branch = this.root;
    if (path === "/") this.rootOpen = true;
    else {
      const above = this.branchOf(parentOf(path));
      if (!above) return;
      const name = nameIn(path);
      branch = new Branch(path, above.level + 1, above.indexOf(name));
      above.open.set(name, branch);
    }
    await this.request(branch, { page: 0 });
    this.layOut();
  }

  close(path) {
    if (path === "/") this.rootOpen = false;
    else this.branchOf(parentOf(path))?.open.delete(nameIn(path));
    this.layOut();
  }

  /** Opens all znodes above a path and finds its row. Returns the row, or null if the znode does not exist. */
  async reveal(path) {
    await this.open("/");
    if (path === "/") return 0;
    let above = "/";
    for (const name of path.slice(1).split("/")) {
      const branch = this.branchOf(above);
      if (!branch || branch.error) return null;
      const isHidden = branch.like !== "" && !name.toLowerCase().includes(branch.like.toLowerCase());
      if (isHidden) await this.filter(above, "");
      if (branch.indexOf(name) === null) await this.request(branch, { name });
      const index = branch.indexOf(name);
      if (index === null) return null;
      above = join(above, name);
      if (above !== path) {
        await this.open(above);
        const opened = branch.open.get(name);
        if (opened) opened.index = index;
      }
    }
    this.layOut();
    return this.rowOf(path);
  }

  /** Shows only children whose names contain a text. */
  async filter(path, like) {
    await this.open(path);
    const branch = this.branchOf(path);
    if (!branch || branch.like === like) return;
    branch.like = like;
    branch.pages.clear();
    branch.error = null;
    await this.reload(branch);
  }

  /** Loads the known pages again, and finds the new positions of open children. */
  async reload(branch, first = 0) {
    const pages = branch.pages.size > 0 ? [...branch.pages.keys()].slice(-3) : [first];
    for (const number of [...branch.pages.keys()]) if (!pages.includes(number)) branch.pages.delete(number);
    await Promise.all(pages.map((page) => this.request(branch, { page })));
    for (const [name, child] of branch.open) {
      if (branch.indexOf(name) === null) await this.request(branch, { name });
      child.index = branch.indexOf(name);
      if (child.index === null && branch.like === "") branch.open.delete(name);
    }
    this.layOut();
  }

  branches() {
    const found = [];
    const visit = (branch) => {
      found.push(branch);
      for (const child of branch.open.values()) visit(child);
    };
    if (this.rootOpen) visit(this.root);
    return found;
  }

  /** Checks open znodes for changes of their children. */
  async refresh(signal) {
    const loaded = this.branches().filter((branch) => branch.pzxid !== null);
    for (const branch of loaded.slice(0, WATCHED_MAX)) {
      try {
        const { stat } = await json("stat", { path: branch.path }, signal);
        if (stat.pzxid !== branch.pzxid) await this.reload(branch);
      } catch (error) {
        if (signal.aborted || !error.code) throw error;
        if (error.code === "NoNode") await this.changed(branch.path);
        else break;
      }
    }
  }

  /** Loads the siblings of a znode that was created, changed or deleted. */
  async changed(path) {
    const branch = this.branchOf(parentOf(path));
    if (branch) await this.reload(branch);
  }

  /** Forgets what another identity was shown. */
  async forget() {
    for (const branch of this.branches()) {
      branch.pages.clear();
      branch.error = null;
      await this.reload(branch);
    }
  }
}
