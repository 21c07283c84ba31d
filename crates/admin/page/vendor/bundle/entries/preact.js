// Components, templates and signals of the console.

import htm from "htm";
import { h } from "preact";

export { Fragment, h, render } from "preact";
export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
export { batch, computed, effect, signal } from "@preact/signals";
/** Creates elements from template strings. Values in a template are never parsed as markup. */
export const html = htm.bind(h);
