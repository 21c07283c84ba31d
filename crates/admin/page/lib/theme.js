// Light, dark or system theme. The choice is stored in this browser.

import { signal } from "../vendor/preact.js";

const KEY = "zoarium-theme";

/** Themes, in the order of the switch. */
export const THEMES = ["system", "light", "dark"];

/** The chosen theme. */
export const theme = signal(stored());

/** Number of changes of the colours. Charts are drawn again after each. */
export const colours = signal(0);

function stored() {
  try {
    const found = localStorage.getItem(KEY);
    return THEMES.includes(found) ? found : "system";
  } catch {
    // The browser does not permit storage.
    return "system";
  }
}

function apply() {
  if (theme.peek() === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.peek();
  colours.value += 1;
}

/** Chooses a theme. */
export function choose(name) {
  theme.value = name;
  try {
    localStorage.setItem(KEY, name);
  } catch {
    // The choice ends with the page.
  }
  apply();
}

/** Applies the stored theme, and follows the system. */
export function startTheme() {
  apply();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
}
