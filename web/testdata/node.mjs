// Runs the wasm device under node with a store in memory, for tests: node node.mjs WASM_EXEC WASM OPTIONS
// OPTIONS is JSON: url, token, deterministic, events (item IDs), steps, and clock, by which the device's clock is ahead
// in ms. It steps until a report is counted, and
// prints the device's description, its recommendations and the steps as JSON.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [exec, wasm, text] = process.argv.slice(2);
await import(pathToFileURL(exec).href);
const { events = [], steps = 50, count = 5, clock = 0, ...options } = JSON.parse(text);
const RealDate = Date;
globalThis.Date = class extends RealDate {
  getTime() { return super.getTime() + clock; }
};
const go = new Go();
const { instance } = await WebAssembly.instantiate(readFileSync(wasm), go.importObject);
go.run(instance);

let record = null;
const models = new Map();
const requests = [];
const store = {
  load: async () => record,
  save: async (b) => { record = b; },
  lock: async () => () => {},
  wipe: async () => { record = null; },
};
const blobs = {
  get: async (h) => models.get(h) ?? null,
  put: async (h, b) => { models.set(h, b); },
  keep: async (all) => { for (const h of models.keys()) if (!all.includes(h)) models.delete(h); },
};
const device = await globalThis.tacit.open({ ...options, store, blobs, observe: (...r) => requests.push(r) });
for (const [i, item] of events.entries()) await device.add(item, i);
const done = [];
let failure = null;
for (let i = 0; i < steps; i++) {
  try {
    const step = await device.step();
    done.push(step);
    if (step.state === "counted") break;
    await new Promise((wake) => setTimeout(wake, Math.min(step.after_ns / 1e6, 200)));
  } catch (e) {
    failure = { code: e.code, message: e.message };
    break;
  }
}
const about = await device.about();
let list = null;
let found = null;
if (about.model > 0) {
  list = await device.recommend(count);
  found = await device.search("", count);
}
let forgot = null;
if (options.forget) {
  try { await device.forget(); } catch (e) { forgot = e.message; }
}
const left = record === null ? 0 : record.length;
console.log(JSON.stringify({ about, list, found, steps: done, failure, requests, left, models: models.size, forgot }));
process.exit(0);
