// State of the page: the address, the ensemble, and the clock that refreshes the views.

import { batch, signal, useEffect, useRef } from "../vendor/preact.js";
import { json } from "./ask.js";

/** Interval between two requests for the state of the ensemble. */
const EVERY_MS = 2000;
/** Time limit for the answer of this page's member. A member that hangs does not answer. */
const LIMIT_MS = 2500;
const SECOND_MS = 1000;

/** View, path and part of the view in the address. */
export const route = signal(parse());

/** Last state of the ensemble, with its time on the clock of this browser. */
export const ensemble = signal(null);

/** The first failed request since the last answer: time and error. */
export const lost = signal(null);

/** Time on the clock of this browser. Changes every second. */
export const now = signal(Date.now());

/** Number of answers about the ensemble. A view loads its data again after each. */
export const beat = signal(0);

/** Error of the view. */
export const trouble = signal(null);

/** Difference between the clocks of this browser and of the member, in ms. */
let shift = 0;

function parse() {
  // A path in an address does not contain a question mark, because it is encoded.
  const [, view = "ensemble", rest = "", part = ""] = /^#\/(\w+)([^?]*)\??(.*)$/.exec(location.hash) ?? [];
  let path = "/";
  try {
    path = rest.split("/").map(decodeURIComponent).join("/").replace(/\/+$/, "") || "/";
  } catch {
    // A visitor typed an invalid address.
  }
  return { view, path, part };
}

/** Shows the view of the address. */
export function readAddress() {
  route.value = parse();
}

/** Converts a time of the member's clock to this browser's clock. */
export function local(ms) {
  return ms === null || ms === undefined ? null : ms + shift;
}

/** Name of a member. */
export function nameOf(row) {
  return row.member === null ? "this server" : `server ${row.member}`;
}

/** Address of this view in the console of another member. */
export function consoleOf(row) {
  if (!row.admin || !/^[\w.:[\]-]+$/.test(row.admin)) return null;
  return `${location.protocol}//${row.admin}/${location.hash}`;
}

let isLooking = false;

/** Requests the state of the ensemble. A view that waits does not delay the next request. */
async function look() {
  if (isLooking) return;
  isLooking = true;
  try {
    const answer = await json("ensemble", undefined, AbortSignal.timeout(LIMIT_MS));
    const state = answer.now === undefined ? { ...answer, now: Date.now(), age: 0 } : answer;
    shift = Date.now() - (state.now + state.age);
    batch(() => {
      ensemble.value = state;
      lost.value = null;
      now.value = Date.now();
      beat.value += 1;
    });
  } catch (error) {
    lost.value = { at: lost.peek()?.at ?? Date.now(), error };
  } finally {
    isLooking = false;
  }
}

/** Starts the clock. It stops while the page is not visible. */
export function startClock() {
  const isVisible = () => document.visibilityState === "visible";
  setInterval(() => isVisible() && look(), EVERY_MS);
  setInterval(() => {
    if (isVisible()) now.value = Date.now();
  }, SECOND_MS);
  document.addEventListener("visibilitychange", () => isVisible() && look());
  look();
}

/**
 * Loads the data of a view: immediately, when an input changes, and after each answer about the ensemble. `load`
 * receives a signal that is aborted when the view ends or an input changes. Two loads never overlap.
 */
export function useRefresh(load, inputs = []) {
  const current = useRef(load);
  current.current = load;
  useEffect(() => {
    const ending = new AbortController();
    let isRunning = false;
    const run = async () => {
      if (isRunning) return;
      isRunning = true;
      try {
        await current.current(ending.signal);
        if (!ending.signal.aborted) trouble.value = null;
      } catch (error) {
        if (!ending.signal.aborted) trouble.value = error;
      } finally {
        isRunning = false;
      }
    };
    const stop = beat.subscribe(() => {
      run();
    });
    return () => {
      stop();
      ending.abort();
    };
  }, inputs);
}
