// Frame of all pages: header, health, messages, and the place of the view.

import { html, useEffect, useRef } from "../vendor/preact.js";
import { visit } from "../lib/ask.js";
import { DialogPlace } from "../lib/dialog.js";
import { route, trouble } from "../lib/state.js";
import { choose, theme, THEMES } from "../lib/theme.js";
import { Choice, Message } from "../lib/ui.js";
import { openFind } from "./find.js";
import { Health, isOld, Role } from "./health.js";
import { Identity } from "./identity.js";

/** Views in the order of the navigation: name in the address, and label. */
const VIEWS = [
  ["ensemble", "Ensemble", "#/ensemble"],
  ["tree", "Znodes", "#/tree/"],
  ["sessions", "Sessions", "#/sessions"],
  ["clients", "Clients", "#/clients"],
  ["history", "History", "#/history/"],
  ["log", "Log", "#/log"],
];

function Navigation({ view }) {
  const shown = VIEWS.filter(([name]) => name !== "history" || visit.value.has_history);
  const link = ([name, label, href]) => html`
    <a key=${name} href=${href} aria-current=${name === view ? "page" : undefined}>${label}</a>
  `;
  return html`<nav aria-label="Views">${shown.map(link)}</nav>`;
}

function Header({ view }) {
  const { title, version } = visit.value;
  return html`
    <header class="top">
      <a class="brand" href="#/ensemble">
        <img src="/console/icon.svg" alt="" width="26" height="26" /><span>Zoarium</span>
      </a>
      <p class="member"><span id="title" title=${version}>${title}</span> <${Role} /></p>
      <${Navigation} view=${view} />
      <button id="find" type="button" title="Find a znode (/ or Ctrl-K)" aria-keyshortcuts="/ Control+K" onClick=${openFind}>
        Find
      </button>
      <div class="theme">
        <${Choice} label="Theme" value=${theme.value} options=${THEMES.map((name) => [name, name])} onchange=${choose} />
      </div>
      <${Identity} />
    </header>
  `;
}

/** Page with a view. `views` maps names to components. */
export function Frame({ views }) {
  const { view, path, part } = route.value;
  const name = Object.hasOwn(views, view) ? view : "ensemble";
  const { title, notice } = visit.value;
  const stale = isOld.value;
  useEffect(() => {
    document.title = title ? `${title} · Zoarium console` : "Zoarium console";
  }, [title]);
  useEffect(() => {
    document.body.classList.toggle("stale", stale);
  }, [stale]);
  const isFirst = useRef(true);
  useEffect(() => {
    // The link to this view may have disappeared together with the view before.
    const isFocusLost = !isFirst.current && document.activeElement === document.body;
    if (isFocusLost) document.getElementById("main").focus({ preventScroll: true });
    isFirst.current = false;
  }, [name, part]);
  const error = trouble.value;
  // The line about health reports a member that does not answer.
  const isTold = error === null || error.status === 0;
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <${Header} view=${name} />
    <${Health} />
    ${notice && html`<section class="notice quiet" aria-label="Note">Note: ${notice}.</section>`}
    ${!isTold && html`<p id="trouble" class="trouble" role="alert">Cannot update the figures: ${error.message}.</p>`}
    <main id="main" tabindex="-1"><${views[name]} key=${name} path=${path} part=${part} /></main>
    <footer><a href="/console/vendor/LICENSES.txt">Licences of libraries</a></footer>
    <${Message} />
    <${DialogPlace} />
  `;
}

/** Moves the focus without a change of the address, which contains the view. */
function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}
