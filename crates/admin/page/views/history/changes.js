// Changes below a path: pages of older changes, and a feed of new ones.

import { useEffect, useRef, useState } from "../../vendor/preact.js";
import { json, lines, user } from "../../lib/ask.js";
import { useRefresh } from "../../lib/state.js";
import { count } from "../../lib/text.js";

/** Changes in a page. */
const CHANGES = 100;
/** Largest number of changes that the page keeps. */
const KEPT_MAX = 2000;
/** Interval at which new changes are rendered, in ms. */
const RENDER_MS = 250;
/** Pause after which a feed that has ended is opened again, in ms. */
const RETRY_MS = 2000;

const EMPTY = { changes: [], next: null, head: null, hidden: 0, isLoaded: false };

/** Requests a page of changes, newest first. */
function fetchChanges(path, parameters, signal) {
  return json("history/changes", { path, recursive: true, limit: CHANGES, ...parameters }, signal);
}

/**
 * Follows the changes below a path from a position. `receive` is called with new changes and progress, and `report`
 * with the reason why the feed is not open, or null.
 */
async function follow(path, position, { receive, report, signal }) {
  let after = position;
  let waiting = [];
  let timer = null;
  const flush = (part = {}) => {
    clearTimeout(timer);
    timer = null;
    const changes = waiting;
    waiting = [];
    if (!signal.aborted) receive(changes, part);
  };
  while (!signal.aborted) {
    let hidden = 0;
    try {
      for await (const line of lines("history/feed", { path, after }, signal)) {
        if (signal.aborted) break;
        if (line.end) throw new Error(line.end.text);
        after = line.progress ?? line.position;
        if (line.progress === undefined) {
          waiting.push(line);
          timer ??= setTimeout(flush, RENDER_MS);
        } else {
          report(null);
          flush({ head: line.head, hidden: line.hidden - hidden });
          hidden = line.hidden;
        }
      }
      report("the server closed the feed");
    } catch (error) {
      if (!signal.aborted) report(error.message);
    }
    flush();
    if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

/**
 * Changes at and below a path, the oldest first. New changes are added while the page is open, unless `until` is a
 * moment. `added` is called with the place and the number of changes that are added or removed. `older` loads an
 * earlier page, unless it is null.
 */
export function useChanges(path, until, added) {
  const [state, show] = useState({ ...EMPTY, about: "Loading…", isRetried: false });
  // Several events may arrive before the view is rendered again.
  const latest = useRef(state);
  const update = (part) => {
    latest.current = { ...latest.current, ...part };
    show(latest.current);
  };
  const [reason, report] = useState("opening");
  const identity = user.value;
  const load = async (signal) => {
    try {
      const answer = await fetchChanges(path, until === null ? {} : { until }, signal);
      if (signal.aborted) return;
      const { results, next, hidden, extent } = answer;
      const changes = results.reverse();
      update({ changes, next, head: extent.head, hidden, isLoaded: true, about: null, isRetried: false });
      added("all", changes.length);
    } catch (error) {
      if (signal.aborted) return;
      // A server that builds its change history, or does not answer, will answer later.
      const isRetried = !(error.status < 500);
      update({ ...EMPTY, about: error.message, isRetried });
      added("all", 0);
    }
  };
  useEffect(() => {
    const ending = new AbortController();
    update({ about: "Loading…", isLoaded: false, isRetried: false });
    load(ending.signal);
    return () => ending.abort();
  }, [path, until, identity]);
  useRefresh((signal) => (state.isRetried ? load(signal) : undefined), [path, until, identity]);

  const isFollowed = state.isLoaded && until === null;
  useEffect(() => {
    if (!isFollowed) return undefined;
    const ending = new AbortController();
    const receive = (found, part) => {
      if (found.length === 0 && part.head === undefined) return;
      const old = latest.current;
      const head = part.head ?? old.head;
      const hidden = old.hidden + (part.hidden ?? 0);
      const all = [...old.changes, ...found];
      const cut = Math.max(0, all.length - KEPT_MAX);
      const changes = found.length > 0 ? all.slice(cut) : old.changes;
      update({ changes, head, hidden, next: cut > 0 ? changes[0].position : old.next });
      if (found.length > 0) added("new", found.length);
      if (cut > 0) added("cut", cut);
    };
    report("opening");
    follow(path, latest.current.head, { receive, report, signal: ending.signal });
    return () => ending.abort();
  }, [path, until, identity, isFollowed]);

  const older = async () => {
    const before = latest.current;
    const answer = await fetchChanges(path, { after: before.next, ...(until === null ? {} : { until }) });
    const now = latest.current;
    // Another page was loaded meanwhile.
    if (now.next !== before.next) return;
    const results = answer.results.reverse();
    update({ changes: [...results, ...now.changes], next: answer.next, hidden: now.hidden + answer.hidden });
    added("old", results.length);
  };
  const { changes, head, hidden, next, about } = state;
  const parts = [`Changes up to ${head}: ${count(changes.length)}.`];
  if (next !== null) parts.push("Older ones exist.");
  if (hidden > 0) parts.push(`Changes hidden from this identity: ${count(hidden)}.`);
  return {
    changes,
    about: about ?? parts.join(" "),
    older: next !== null && changes.length < KEPT_MAX ? older : null,
    live: isFollowed ? { isOpen: reason === null, reason } : null,
  };
}
