// The service worker of the device page: it keeps the files of one build, so that the page opens without a network.
// `make web` replaces the number of the build; a new one fetches all files again. Calls to the coordinator pass.

const build = "tacit-device-BUILD";
const files = [
  "./", "page.js", "view.js", "style.css", "icon.svg", "manifest.webmanifest", "device/index.js", "device/store.js",
  "device/worker.js", "device/wasm_exec.js", "device/tacit.wasm",
];

self.addEventListener("install", (event) => {
  event.waitUntil((async () => {
    const cache = await caches.open(build);
    await cache.addAll(files.map((f) => new Request(f, { cache: "no-cache" })));
    await self.skipWaiting();
  })());
});

self.addEventListener("activate", (event) => {
  event.waitUntil((async () => {
    for (const name of await caches.keys()) {
      if (name.startsWith("tacit-device-") && name !== build) await caches.delete(name);
    }
    await self.clients.claim();
  })());
});

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || !url.href.startsWith(self.registration.scope)) return;
  event.respondWith((async () => {
    const cache = await caches.open(build);
    return (await cache.match(event.request, { ignoreSearch: true })) ?? fetch(event.request);
  })());
});
