// Which view is shown, and the clock that keeps it fresh.

import { begin, logIn, logOut, visit } from "./ask.js";
import { clients } from "./clients.js";
import { dialog, field, h, oneLine, say } from "./dom.js";
import { history } from "./history.js";
import { log } from "./log.js";
import { overview, sample, sampleMissed } from "./overview.js";
import { sessions } from "./sessions.js";
import { tree } from "./tree.js";

const EVERY_MS = 2000;

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
  tick(false);
}

function tell(now) {
  const role = document.getElementById("role");
  role.textContent = now.server_state;
  role.className = `chip role-${now.server_state}`;
}

let ticking = false;

async function tick(isNew = true) {
  if (ticking && isNew) return;
  ticking = true;
  try {
    let now = null;
    if (isNew || !tick.last) {
      now = await sample();
      tick.last = now;
      tell(now);
    }
    await shown?.refresh(now ?? tick.last);
    trouble.hidden = true;
  } catch (error) {
    if (isNew) sampleMissed();
    trouble.textContent = `Cannot update the figures: ${error.message}.`;
    trouble.hidden = false;
  } finally {
    ticking = false;
  }
}

function tellIdentity() {
  const on = visit.user !== null;
  identity.textContent = on ? oneLine(visit.user) : "Read only · Log in";
  identity.classList.toggle("on", on);
  identity.title = on ? visit.identities.map(({ scheme, id }) => `${scheme}:${id}`).join("\n") : "";
}

function askIdentity() {
  if (visit.user !== null) {
    const who = visit.identities.map(({ scheme, id }) => h("li", {}, oneLine(`${scheme}: ${id}`)));
    dialog("Logged in", [h("p", {}, "Your identities on this member:"), h("ul", {}, who)], "Log out", async () => {
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
      h("p", { class: "quiet" }, "The scheme is digest. The server verifies only the password of the super user, and accepts any password for other users. The ACL of each znode determines the permissions of the identity. SASL and x509 identities are verified."),
      field("User", h("input", { name: "user", required: true, autocomplete: "username", spellcheck: "false" })),
      field("Password", h("input", { name: "password", type: "password", autocomplete: "current-password" })),
    ],
    "Log in",
    async ({ user, password }) => {
      await logIn(user, password);
      say(`Logged in as ${oneLine(user)}`);
    },
  );
}

async function start() {
  identity.addEventListener("click", askIdentity);
  document.addEventListener("identity", () => {
    tellIdentity();
    const { path } = parse();
    if (shown?.go) shown.go(path);
    else tick(false);
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
  setInterval(() => document.visibilityState === "visible" && tick(), EVERY_MS);
}

start();
