// @ts-check

// The device page: it connects the device with the view. The device works in a worker; this file only draws.

import { Device } from "./device/index.js";
import * as view from "./view.js";

const shown = 12;
const listed = 10;

/** @type {Device | undefined} */
let device;
let searches = 0;
let refreshes = 0;
let forgotten = false;

/** Reads the token behind the # of the address and removes it from the address bar. */
function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
  if (token) history.replaceState(null, "", location.pathname);
  return token;
}

/** Opens the device and takes part. @param {string} token */
async function open(token) {
  device?.close();
  view.hideProblem();
  try {
    device = await Device.open({ token });
  } catch (e) {
    view.problem(`The device cannot be opened: ${text(e)}`);
    return;
  }
  device.addEventListener("step", (e) => {
    view.step(e.detail);
    refresh();
  });
  device.addEventListener("start", () => view.status("Asking the coordinator for work"));
  device.addEventListener("request", (e) => view.request(e.detail));
  device.addEventListener("stop", (e) => stopped(e.detail));
  device.addEventListener("forgotten", gone);
  view.status("Another tab takes part with this device");
  await device.start();
  await refresh();
  document.documentElement.dataset.state = "open";
}

/** @param {{code?: string, message?: string}} why */
function stopped(why) {
  if (forgotten || !why.message) return;
  if (why.code === "bad_token") view.askToken();
  else view.problem(`The device has stopped: ${why.message}`);
  view.status("Not taking part");
}

/** Shows the state of the device. A later call makes an earlier one obsolete. */
async function refresh() {
  const turn = ++refreshes;
  const d = device;
  if (!d || forgotten) return;
  try {
    const [about, events] = await Promise.all([d.about(), d.events()]);
    const list = about.model > 0 ? await d.recommend(listed) : null;
    if (turn !== refreshes || forgotten) return;
    view.about(about);
    view.picks(events, (item) => change(() => d.remove(item)));
    if (list) {
      view.recommendations(list, (item) => change(() => d.add(item)));
      performance.mark("tacit:recommended");
      if (view.ready()) await search();
    }
  } catch (e) {
    if (turn === refreshes && !forgotten) view.problem(text(e));
  }
}

/** Changes the history and shows what follows. @param {() => Promise<unknown>} act */
async function change(act) {
  try {
    await act();
    view.hideProblem();
  } catch (e) {
    view.problem(text(e));
  }
  await refresh();
  await search();
}

async function search() {
  const turn = ++searches;
  const d = device;
  if (!d || forgotten) return;
  try {
    const found = await d.search(view.searched(), shown + view.picked());
    if (turn === searches) view.found(found, shown, (item) => change(() => d.add(item)));
  } catch (e) {
    if (/** @type {any} */ (e).code !== "no_model" && !forgotten) view.problem(text(e));
  }
}

async function forget() {
  if (!device) {
    // the stored state cannot be read: delete it without the device
    await Device.erase();
    gone();
    return;
  }
  forgotten = true;
  view.status("Leaving the federation");
  let failure = "";
  try {
    await device.forget();
  } catch (e) {
    failure = text(e);
  }
  gone();
  if (failure) view.problem(failure);
}

function gone() {
  forgotten = true;
  view.forgotten();
  document.documentElement.dataset.state = "forgotten";
}

/** @param {unknown} e */
const text = (e) => String(/** @type {any} */ (e)?.message ?? e);

view.connect({
  search,
  forget,
  enrol: (token) => open(token),
  pause: (on) => change(async () => {
    await device?.pause(on);
    view.status(on ? "Paused" : "Asking the coordinator for work");
  }),
});
await open(takeToken());
if ("serviceWorker" in navigator) {
  navigator.serviceWorker.register("sw.js").catch(() => {
    // The page works online without it, for instance in a private window.
  });
}
