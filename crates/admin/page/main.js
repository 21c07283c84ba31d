// Entry of the page.

import { html, render } from "./vendor/preact.js";
import { begin } from "./lib/ask.js";
import { startClock, trouble } from "./lib/state.js";
import { startTheme } from "./lib/theme.js";
import { protectUnsaved } from "./lib/unsaved.js";
import { listenToKeys } from "./shell/find.js";
import { Frame } from "./shell/frame.js";
import { Clients } from "./views/clients.js";
import { Overview } from "./views/ensemble/overview.js";
import { History } from "./views/history/history.js";
import { Log } from "./views/log.js";
import { Sessions } from "./views/sessions.js";
import { Znodes } from "./views/znodes/znodes.js";

const VIEWS = {
  ensemble: Overview,
  tree: Znodes,
  sessions: Sessions,
  clients: Clients,
  history: History,
  log: Log,
};

startTheme();
protectUnsaved();
listenToKeys();
render(html`<${Frame} views=${VIEWS} />`, document.getElementById("app"));
try {
  await begin();
} catch (error) {
  trouble.value = error;
}
startClock();
