// @ts-check

// The state of a device in IndexedDB. The private record is encrypted with AES-GCM under a key that the browser
// does not export; the model, which every device of the federation has, is stored as it came.

const records = "records";
const keys = "keys";
const models = "models";

/** @param {IDBRequest | IDBOpenDBRequest} request @returns {Promise<any>} */
function result(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("IndexedDB failed"));
  });
}

/** @param {IDBTransaction} t @returns {Promise<void>} */
function committed(t) {
  return new Promise((resolve, reject) => {
    t.oncomplete = () => resolve();
    t.onabort = () => reject(t.error ?? new Error("IndexedDB ended the transaction"));
    t.onerror = () => reject(t.error ?? new Error("IndexedDB failed"));
  });
}

/** The name of the database of a device. @param {string} name */
export const databaseName = (name) => `tacit-device:${name}`;

/** Runs a function while no other page holds the lock. @template T @param {string} name
 * @param {() => Promise<T>} run @returns {Promise<T>} */
export async function exclusively(name, run) {
  if (!navigator.locks) throw new Error("this browser has no Web Locks: update it to use a device");
  return navigator.locks.request(name, run);
}

/** Deletes the state of a device in this browser. @param {string} name */
export async function erase(name) { await result(indexedDB.deleteDatabase(databaseName(name))); }

/** Opens the store of a device. @param {string} name */
export async function openStore(name) {
  if (!globalThis.crypto?.subtle || !globalThis.indexedDB) {
    throw new Error("the browser offers WebCrypto and IndexedDB to pages over https only: open this page with https");
  }
  const opening = indexedDB.open(databaseName(name), 1);
  opening.onupgradeneeded = () => {
    for (const table of [records, keys, models]) opening.result.createObjectStore(table);
  };
  /** @type {IDBDatabase} */
  const db = await result(opening);
  db.onversionchange = () => db.close(); // another page deletes the database
  const bound = new TextEncoder().encode(name);

  /** Reads a value. @param {string} table @param {IDBValidKey} id */
  const get = (table, id) => result(db.transaction(table).objectStore(table).get(id));

  /** Changes a table in one transaction that is on disk when it resolves.
   * @param {string} table @param {(s: IDBObjectStore) => void} change */
  async function change(table, change) {
    const t = db.transaction(table, "readwrite", { durability: "strict" });
    change(t.objectStore(table));
    await committed(t);
  }

  /** Returns the key, which is created once; of two pages that create one, the first one's stays.
   * @param {boolean} create @returns {Promise<CryptoKey | undefined>} */
  async function key(create) {
    const old = await get(keys, "state");
    if (old || !create) return old;
    const fresh = await crypto.subtle.generateKey({ name: "AES-GCM", length: 256 }, false, ["encrypt", "decrypt"]);
    const t = db.transaction(keys, "readwrite", { durability: "strict" });
    const table = t.objectStore(keys);
    const first = table.get("state");
    first.onsuccess = () => {
      if (!first.result) table.put(fresh, "state");
    };
    await committed(t);
    return get(keys, "state");
  }

  const store = {
    async load() {
      const sealed = await get(records, "state");
      if (!sealed) return null;
      const k = await key(false);
      try {
        if (!k) throw new Error("the key is missing");
        const open = { name: "AES-GCM", iv: sealed.iv, additionalData: bound };
        return new Uint8Array(await crypto.subtle.decrypt(open, k, sealed.data));
      } catch {
        throw new Error("the stored state is corrupt, or its key is missing; forget this device and enrol again");
      }
    },
    /** @param {Uint8Array} b */
    async save(b) {
      const k = /** @type {CryptoKey} */ (await key(true));
      const iv = crypto.getRandomValues(new Uint8Array(12));
      const data = await crypto.subtle.encrypt({ name: "AES-GCM", iv, additionalData: bound }, k, /** @type {any} */ (b));
      await change(records, (s) => s.put({ iv, data }, "state"));
    },
    /** Resolves to a function that unlocks. */
    lock() {
      return new Promise((locked, failed) => {
        exclusively(`${databaseName(name)}:save`, () => new Promise((unlock) => locked(() => unlock(undefined))))
          .catch(failed);
      });
    },
    async wipe() {
      for (const table of [records, keys]) await change(table, (s) => s.clear());
    },
  };

  const blobs = {
    /** @param {string} hash */
    get: async (hash) => (await get(models, hash)) ?? null,
    /** @param {string} hash @param {Uint8Array} b */
    put: (hash, b) => change(models, (s) => s.put(b, hash)),
    /** @param {string[]} hashes */
    async keep(hashes) {
      const all = await result(db.transaction(models).objectStore(models).getAllKeys());
      const old = all.filter((/** @type {string} */ h) => !hashes.includes(h));
      if (old.length > 0) {
        await change(models, (s) => {
          for (const h of old) s.delete(h);
        });
      }
    },
  };

  /** Deletes the database. */
  async function destroy() {
    db.close();
    await erase(name);
  }

  return { store, blobs, destroy };
}
