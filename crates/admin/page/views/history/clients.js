// Clients of changes. A member knows only the clients that it serves, so the other members are queried for the rest.

import { computed, useEffect, useRef, useState } from "../../vendor/preact.js";
import { json } from "../../lib/ask.js";
import { ensemble, nameOf } from "../../lib/state.js";
import { oneLine } from "../../lib/text.js";

/** Transactions in a query. Their ids must fit into an address. */
const PAGE = 100;

/** Whether the list of members has arrived. */
const hasMembers = computed(() => ensemble.value !== null);

const identityText = (one) => (typeof one === "string" ? one : `${one.scheme}:${one.id}`);

/** Whether this member does not know the client of a change, but the visitor may see it. */
function isUnknown({ session, client, identities }) {
  return session !== null && session !== "0x0" && !client && identities.length === 0;
}

/** Queries one member for the clients of transactions. */
async function clientsOf(row, zxids, signal) {
  const found = [];
  let rest = zxids;
  while (rest.length > 0) {
    const page = rest.slice(0, PAGE);
    const query = [["member", row.member], ...page.map((zxid) => ["zxid", zxid])];
    const { results, next } = await json("history/origins", query, signal);
    found.push(...results.map((one) => ({ ...one, member: nameOf(row) })));
    // A page of an answer may end early.
    const late = next === null ? [] : page.filter((zxid) => BigInt(zxid) >= BigInt(next));
    rest = [...late, ...rest.slice(PAGE)];
  }
  return found;
}

/**
 * Clients of changes from all members. Returns a function that describes the client of a change, and the reasons why
 * members did not answer.
 */
export function useClients(changes) {
  const [known, learn] = useState({ clients: new Map(), reasons: [] });
  const asked = useRef(new Set());
  const isReady = hasMembers.value;
  useEffect(() => {
    const zxids = [...new Set(changes.filter(isUnknown).map(({ zxid }) => zxid))].filter((zxid) => !asked.current.has(zxid));
    if (!isReady || zxids.length === 0) return undefined;
    const ending = new AbortController();
    const others = ensemble.peek().members.filter((row) => !row.is_own && row.member !== null);
    zxids.forEach((zxid) => asked.current.add(zxid));
    Promise.allSettled(others.map((row) => clientsOf(row, zxids, ending.signal))).then((answers) => {
      if (ending.signal.aborted) {
        zxids.forEach((zxid) => asked.current.delete(zxid));
        return;
      }
      const found = answers.flatMap(({ value }) => value ?? []);
      const failed = answers.map(({ reason }, at) => reason && `${nameOf(others[at])}: ${reason.message}`).filter(Boolean);
      learn(({ clients }) => ({
        clients: new Map([...clients, ...found.map((one) => [one.zxid, one])]),
        reasons: failed,
      }));
    });
    return () => ending.abort();
  }, [changes, isReady]);

  const describe = (change) => {
    if (change.session === null) return "only administrators see the client";
    const other = known.clients.get(change.zxid);
    const { client, identities } = isUnknown(change) && other ? other : change;
    const named = [...identities.map(identityText), client].filter(Boolean).join(" ");
    if (named === "") return change.session;
    return oneLine(isUnknown(change) && other ? `${named} (${other.member})` : named);
  };
  return { describe, reasons: known.reasons.map(oneLine) };
}
