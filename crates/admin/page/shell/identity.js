// Login and log-out, and the origin of each identity. The server checks only some identities.

import { html, useState } from "../vendor/preact.js";
import { logIn, logOut, visit } from "../lib/ask.js";
import { inform, openForm } from "../lib/dialog.js";
import { oneLine } from "../lib/text.js";
import { Choice, Field, say } from "../lib/ui.js";
import { withoutUnsaved } from "../lib/unsaved.js";

const ORIGINS = {
  digest: "created from the user and the password, which the server did not check",
  super: "super user: the server has checked the password",
  sasl: "SASL user: the server has checked the password",
  x509: "the certificate of this browser, which the server has checked",
  ip: "the address of this browser",
};

/** Schemes of the form. */
const SCHEMES = [
  ["sasl", "SASL: the server checks the password"],
  ["digest", "digest: the server creates the identity"],
];

const OTHERS = `This form does not support Kerberos. A browser that presents a client certificate (admin.needClientAuth) is
logged in when the page opens, if the server has the X509AuthenticationProvider.`;

const WARNING = `The server creates an identity of the scheme digest from the user and the password. It checks only the
password of the super user, and accepts any password for other users: a wrong password results in another identity. The
ACL of each znode determines the permissions of an identity.`;

function originOf({ scheme, id }) {
  const origin = ORIGINS[scheme] ?? "checked by the server";
  return oneLine(`${scheme}${id ? `:${id}` : ""} (${origin})`);
}

const has = (wanted) => visit.peek().identities.some(({ scheme }) => scheme === wanted);

/** Message after a login. */
function welcome(name) {
  if (has("super")) return `Logged in as the super user ${name}`;
  return has("sasl") ? `Logged in as ${name}` : `Acting as ${name}. The server did not check the password`;
}

/** Choice of the scheme, if the server has SASL users. */
function Scheme() {
  const { has_sasl } = visit.peek();
  const [scheme, choose] = useState(has_sasl ? "sasl" : "digest");
  return html`
    <input type="hidden" name="scheme" value=${scheme} />
    ${has_sasl && html`<${Choice} label="Scheme" options=${SCHEMES} value=${scheme} onchange=${choose} />`}
    ${scheme === "digest" && html`<p class="quiet">${WARNING}</p>`}
  `;
}

function askLogOut() {
  openForm({
    title: "Identity",
    body: html`
      <p>Your identities on this member:</p>
      <ul>${visit.peek().identities.map((one) => html`<li>${originOf(one)}</li>`)}</ul>
    `,
    label: "Log out",
    act: async () => {
      await logOut();
      say("Logged out: the console is read-only");
    },
  });
}

function askLogIn() {
  openForm({
    title: "ZooKeeper identity",
    body: html`
      <${Scheme} />
      <${Field} label="User"><input name="user" required autocomplete="username" spellcheck=${false} /><//>
      <${Field} label="Password"><input name="password" type="password" autocomplete="current-password" /><//>
      <p class="quiet">${OTHERS}</p>
    `,
    label: "Log in",
    act: async (form) => {
      await logIn(form);
      say(welcome(oneLine(form.user)));
    },
  });
}

function askIdentity() {
  const { user, may_log_in, why_not } = visit.peek();
  if (user !== null) withoutUnsaved(askLogOut);
  else if (may_log_in) askLogIn();
  else inform("Login is not possible at this address", why_not ?? "Credentials are not accepted at present.");
}

/** Button that shows the identity, and opens the login. */
export function Identity() {
  const { user, identities } = visit.value;
  const name = user === null ? "Read only · Log in" : oneLine(user);
  return html`
    <button
      id="identity"
      type="button"
      class=${user === null ? "identity" : "identity on"}
      title=${user === null ? undefined : identities.map(originOf).join("\n")}
      onClick=${askIdentity}
    >${name}</button>
  `;
}
