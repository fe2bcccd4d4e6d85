// @ts-check

// A device of a Tacit federation in a web page. All work is done in a worker. See index.d.ts and README.md.

import { databaseName, erase } from "./store.js";

/** An error with a stable code, such as bad_token, no_model or unavailable. */
export class DeviceError extends Error {
  /** @param {string} message @param {string} code */
  constructor(message, code) {
    super(message);
    this.name = "DeviceError";
    this.code = code;
  }
}

const gone = "the device was forgotten or closed: open it again";

export class Device extends EventTarget {
  #worker;
  #channel;
  #next = 1;
  #closed = false;
  /** @type {Map<number, {resolve: (v: any) => void, reject: (e: Error) => void}>} */
  #waiting = new Map();

  /** @param {Worker} worker @param {string} name */
  constructor(worker, name) {
    super();
    this.#worker = worker;
    // other pages with the same device hear when it is forgotten
    this.#channel = new BroadcastChannel(databaseName(name));
    this.#channel.onmessage = ({ data }) => {
      if (data === "forgotten") this.#end("forgotten");
    };
    worker.onmessage = ({ data }) => this.#receive(data);
    worker.onerror = (e) => this.#fail(e.message || "the worker of the device could not be started");
  }

  /** @param {import("./index.js").Options} options */
  static async open(options = {}) {
    const { name = "default", worker, ...rest } = options;
    const w = worker ?? new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    const device = new Device(w, name);
    try {
      await device.#call("open", { url: location.origin, ...rest, name, wasm: rest.wasm && String(rest.wasm) });
    } catch (e) {
      device.close();
      throw e;
    }
    return device;
  }

  /** @param {string} [name] */
  static async erase(name = "default") { await erase(name); }

  /** @param {any} message */
  #receive({ id, value, error, event, detail }) {
    if (event === "crash") {
      this.#fail(detail.message);
    } else if (event) {
      this.dispatchEvent(new CustomEvent(event, { detail }));
    } else {
      const call = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error) call?.reject(new DeviceError(error.message, error.code));
      else call?.resolve(value);
    }
  }

  /** @param {string} message */
  #fail(message) {
    for (const call of this.#waiting.values()) call.reject(new DeviceError(message, "failed"));
    this.#waiting.clear();
    this.dispatchEvent(new CustomEvent("stop", { detail: { code: "failed", message } }));
  }

  /** @param {string} method @param {...any} args @returns {Promise<any>} */
  #call(method, ...args) {
    if (this.#closed) return Promise.reject(new DeviceError(gone, "closed"));
    return new Promise((resolve, reject) => {
      const id = this.#next++;
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, method, args });
    });
  }

  start() { return this.#call("start"); }
  stop() { return this.#call("stop"); }
  step() { return this.#call("step"); }
  /** @param {string} item @param {number} [time] */
  add(item, time) { return this.#call("add", item, time); }
  /** @param {string} item */
  remove(item) { return this.#call("remove", item); }
  events() { return this.#call("events"); }
  /** @param {string} text @param {number} [n] */
  search(text, n = 10) { return this.#call("search", text, n); }
  recommend(n = 10) { return this.#call("recommend", n); }
  about() { return this.#call("about"); }
  /** @param {boolean} [on] */
  pause(on = true) { return this.#call("pause", on); }

  async forget() {
    try {
      await this.#call("forget");
    } finally {
      this.#channel.postMessage("forgotten");
      this.#end("forgotten");
    }
  }

  close() { this.#end("close"); }

  /** @param {string} event */
  #end(event) {
    if (this.#closed) return;
    this.#closed = true;
    this.#worker.terminate();
    this.#channel.close();
    for (const call of this.#waiting.values()) call.reject(new DeviceError(gone, "closed"));
    this.#waiting.clear();
    this.dispatchEvent(new CustomEvent(event, { detail: {} }));
  }
}
