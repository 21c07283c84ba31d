// Charts of the console.

export { default as uPlot } from "uplot";
