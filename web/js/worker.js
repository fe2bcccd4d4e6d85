// @ts-check

// The worker of a device: it runs the wasm program, so that the page never waits for training. The page sends
// {id, method, args} and receives {id, value} or {id, error}; {event, detail} reports what happens meanwhile.

import "./wasm_exec.js";
import { databaseName, exclusively, openStore } from "./store.js";

const scope = /** @type {any} */ (globalThis);

/** @param {string} event @param {unknown} detail */
const emit = (event, detail) => scope.postMessage({ event, detail });

/** Starts the wasm program. @param {string | URL} url */
async function start(url) {
  // @ts-ignore: wasm_exec.js defines Go
  const go = new Go();
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`cannot load ${new URL(url).pathname}: HTTP status ${answer.status}`);
  const { instance } = answer.headers.get("Content-Type") === "application/wasm"
    ? await WebAssembly.instantiateStreaming(answer, go.importObject)
    : await WebAssembly.instantiate(await answer.arrayBuffer(), go.importObject);
  go.run(instance).then(() => emit("crash", { message: "the device has stopped: reload the page" }));
  // @ts-ignore: the program defines tacit
  return globalThis.tacit;
}

/** @type {any} */
let device;
/** @type {() => Promise<void>} */
let destroy = async () => {};
let name = "";
let running = false;

/** @type {Record<string, (...args: any[]) => Promise<any>>} */
const methods = {
  async open(options) {
    name = options.name;
    const [program, state] = await Promise.all([
      start(options.wasm ?? new URL("./tacit.wasm", import.meta.url)),
      openStore(name),
    ]);
    destroy = state.destroy;
    device = await program.open({
      ...options,
      store: state.store,
      blobs: state.blobs,
      observe: (/** @type {string} */ call, /** @type {number} */ sent, /** @type {number} */ received) =>
        emit("request", { call, sent, received }),
    });
    return program.version;
  },
  // Of several pages with the same device, one takes part in rounds; the next follows when it closes.
  async start() {
    if (running) return;
    running = true;
    exclusively(`${databaseName(name)}:run`, async () => {
      if (!running) return;
      emit("start", {});
      await device.run((/** @type {object} */ step, /** @type {string} */ code, /** @type {string} */ message) =>
        emit("step", { ...step, code, message }));
    })
      .then(() => emit("stop", {}))
      .catch((e) => emit("stop", { code: e.code ?? "failed", message: e.message }))
      .finally(() => { running = false; });
  },
  async stop() {
    running = false;
    await device.stop();
  },
  async forget() {
    running = false;
    let failure;
    try {
      await device.forget();
    } catch (e) {
      failure = e; // everything is deleted all the same
    }
    await destroy();
    if (failure) throw failure;
  },
};

for (const method of ["step", "add", "remove", "events", "search", "recommend", "about", "pause"]) {
  methods[method] = (...args) => device[method](...args);
}

scope.onmessage = async (/** @type {MessageEvent} */ { data: { id, method, args } }) => {
  try {
    if (!Object.hasOwn(methods, method)) throw new Error(`unknown method ${method}`);
    scope.postMessage({ id, value: await methods[method](...args) });
  } catch (e) {
    const error = /** @type {any} */ (e);
    scope.postMessage({ id, error: { message: String(error?.message ?? error), code: error?.code ?? "failed" } });
  }
};
