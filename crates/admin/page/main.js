// Which view is shown, and the clock that keeps it fresh.

import { begin, logIn, logOut, visit } from "./ask.js";
import { clients } from "./clients.js";
import { dialog, field, h, oneLine, say } from "./dom.js";
import { listen } from "./find.js";
import { look, tellAge } from "./health.js";
import { history } from "./history.js";
import { log } from "./log.js";
import { overview } from "./overview.js";
import { sessions } from "./sessions.js";
import { tree } from "./tree.js";

const EVERY_MS = 2000;
const AGE_EVERY_MS = 1000;

const main = document.getElementById("main");
const trouble = document.getElementById("trouble");
const identity = document.getElementById("identity");
let shown = null;
let name = null;

function parse() {
  const [, view = "ensemble", rest = ""] = /^#\/(\w+)(.*)$/.exec(location.hash) ?? [];
  let path = "/";
  try {
    path = rest.split("/").map(decodeURIComponent).join("/").replace(/\/+$/, "") || "/";
  } catch {
    // An address that somebody has typed.
  }
  return { view, path };
}

const VIEWS = {
  ensemble: () => overview(main),
  tree: (path) => tree(main, path),
  sessions: (path) => sessions(main, path.slice(1)),
  clients: () => clients(main),
  history: (path) => history(main, path),
  log: () => log(main),
};

function route() {
  const { view, path } = parse();
  const known = Object.hasOwn(VIEWS, view) ? view : "ensemble";
  if (known === name && shown.go) {
    shown.go(path);
    return;
  }
  name = known;
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  shown = VIEWS[name](path);
  refresh();
}

/** The last state of the ensemble. */
let seen = null;
let isLooking = false;
let isRefreshing = false;

/** Looks at the ensemble, then at the view. A view that waits does not delay the next look. */
async function tick() {
  if (isLooking) return;
  isLooking = true;
  try {
    const state = await look();
    if (!state) return;
    seen = state;
    if (!isRefreshing) refresh();
  } finally {
    isLooking = false;
  }
}

/** Updates the view. */
async function refresh() {
  if (!seen) return;
  isRefreshing = true;
  try {
    await shown?.refresh(seen);
    trouble.hidden = true;
  } catch (error) {
    trouble.textContent = `Cannot update the figures: ${error.message}.`;
    // The line about health reports a member that does not answer.
    trouble.hidden = error.status === 0;
  } finally {
    isRefreshing = false;
  }
}

/** The origin of an identity. The server checks only some of them. */
const ORIGINS = {
  digest: "created from the user and the password, which the server did not check",
  super: "super user: the server has checked the password",
  ip: "the address of this browser",
};

function originOf({ scheme, id }) {
  const origin = ORIGINS[scheme] ?? "checked by the server";
  return oneLine(`${scheme}${id ? `:${id}` : ""} (${origin})`);
}

const isSuper = () => visit.identities.some(({ scheme }) => scheme === "super");

function tellIdentity() {
  const on = visit.user !== null;
  identity.textContent = on ? oneLine(visit.user) : "Read only · Log in";
  identity.classList.toggle("on", on);
  identity.title = on ? visit.identities.map(originOf).join("\n") : "";
}

function askIdentity() {
  if (visit.user !== null) {
    const who = visit.identities.map((one) => h("li", {}, originOf(one)));
    dialog("Identity", [h("p", {}, "Your identities on this member:"), h("ul", {}, who)], "Log out", async () => {
      await logOut();
      say("Logged out: the console is read-only");
    });
    return;
  }
  if (!visit.may_log_in) {
    dialog("Login is not possible at this address", h("p", {}, visit.why_not ?? "Credentials are not accepted at present."), "OK", async () => {});
    return;
  }
  dialog(
    "ZooKeeper identity",
    [
      h("p", { class: "quiet" }, "The server creates an identity of the scheme digest from the user and the password. It checks only the password of the super user, and accepts any password for other users: a wrong password results in another identity. The ACL of each znode determines the permissions of the identity."),
      field("User", h("input", { name: "user", required: true, autocomplete: "username", spellcheck: "false" })),
      field("Password", h("input", { name: "password", type: "password", autocomplete: "current-password" })),
    ],
    "Log in",
    async ({ user, password }) => {
      await logIn(user, password);
      say(isSuper() ? `Logged in as the super user ${oneLine(user)}` : `Acting as ${oneLine(user)}. The server did not check the password`);
    },
  );
}

async function start() {
  identity.addEventListener("click", askIdentity);
  listen(() => {
    const { view, path } = parse();
    return view === "tree" ? path : "/";
  });
  document.addEventListener("identity", () => {
    tellIdentity();
    const { path } = parse();
    if (shown?.go) shown.go(path);
    else refresh();
  });
  addEventListener("hashchange", route);
  try {
    await begin();
    document.getElementById("title").textContent = visit.title;
    document.title = `${visit.title} · Zoarium console`;
    document.getElementById("title").title = visit.version;
    const notice = document.getElementById("notice");
    notice.textContent = visit.notice ? `Note: ${visit.notice}.` : "";
    notice.hidden = !visit.notice;
    document.getElementById("has-history").hidden = !visit.has_history;
  } catch (error) {
    trouble.textContent = error.message;
    trouble.hidden = false;
  }
  tellIdentity();
  route();
  tick();
  setInterval(() => document.visibilityState === "visible" && tick(), EVERY_MS);
  setInterval(tellAge, AGE_EVERY_MS);
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && tick());
}

start();
