// Differences between texts, and the combination of two changes.

export { diffIndices, mergeDiff3 } from "node-diff3";
