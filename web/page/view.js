// @ts-check

// What the device page shows. Titles and messages come from the coordinator: they become text, never HTML.

/** @typedef {import("./device/index.js").About} About */
/** @typedef {import("./device/index.js").Event} Event */
/** @typedef {import("./device/index.js").Item} Item */
/** @typedef {import("./device/index.js").Recommendations} Recommendations */

/** @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);

/** Makes an element. @param {string} tag @param {...(string | Node)} content */
function make(tag, ...content) {
  const e = document.createElement(tag);
  e.append(...content);
  return e;
}

const longest = 200;

/** Shortens a text from the coordinator. @param {string} s */
const short = (s) => (s.length > longest ? `${s.slice(0, longest)}…` : s);

/** @param {{id: string, title: string}} item */
const nameOf = (item) => short(item.title || item.id);

const whole = new Intl.NumberFormat("en");

/** @param {number} n */
function bytes(n) {
  if (n < 1000) return `${n} B`;
  return n < 1e6 ? `${(n / 1000).toFixed(1)} kB` : `${(n / 1e6).toFixed(2)} MB`;
}

/** @type {Set<string>} */
let picked_ = new Set();

export const picked = () => picked_.size;
export const searched = () => $("search").value;

/** Enables the search. Returns true the first time. */
export function ready() {
  const first = $("search").disabled;
  $("search").disabled = $("pause").disabled = false;
  return first;
}

/** Calls functions for what the visitor does.
 * @param {{search: () => void, forget: () => void, enrol: (token: string) => void, pause: (on: boolean) => void}} to */
export function connect(to) {
  let timer = 0;
  $("search").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(to.search, 60);
  });
  $("pause").addEventListener("click", () => to.pause($("pause").dataset.on !== "true"));
  $("forget").addEventListener("click", () => $("sure").showModal());
  $("sure").addEventListener("close", () => {
    if ($("sure").returnValue === "yes") to.forget();
  });
  $("enrol").addEventListener("submit", (/** @type {SubmitEvent} */ e) => {
    e.preventDefault();
    $("enrol").hidden = true;
    to.enrol($("token").value.trim());
  });
}

/** @param {string} s */
export function status(s) { $("status").textContent = short(s); }

/** @param {string} s */
export function problem(s) {
  $("problem").textContent = s.slice(0, 1000);
  $("problem").hidden = false;
}

export function hideProblem() { $("problem").hidden = true; }

export function askToken() {
  $("enrol").hidden = false;
  $("token").focus();
}

/** Shows the result of a check-in. @param {any} s */
export function step(s) {
  if (s.code === "unavailable") {
    status("The coordinator does not answer. Recommendations use the stored model.");
  } else if (s.code) {
    status("The last check-in failed");
    problem(s.message);
  } else if (s.state === "counted") {
    status(`Round ${s.round + 1 || 1}: the report was counted`);
  } else if (s.action === "paused") {
    status("Paused");
  } else if (s.finished) {
    status("All rounds of this run are done");
  } else {
    status(s.reason ? `Waiting: ${s.reason}` : "Waiting for a round");
  }
  if (!s.code) hideProblem();
}

/** @param {Item[]} items @param {number} n @param {(id: string) => void} pick */
export function found(items, n, pick) {
  const open = items.filter((i) => !picked_.has(i.id)).slice(0, n);
  $("found").replaceChildren(...open.map((item) => {
    const b = make("button", nameOf(item));
    b.addEventListener("click", () => pick(item.id));
    return make("li", b);
  }));
}

/** @param {Event[]} events @param {(id: string) => void} remove */
export function picks(events, remove) {
  const items = new Map(events.map((e) => [e.id, e]));
  picked_ = new Set(items.keys());
  $("count").textContent = whole.format(items.size);
  $("no-picks").hidden = items.size > 0;
  $("picks").replaceChildren(...[...items.values()].reverse().slice(0, 200).map((item) => {
    const b = make("button", "×");
    b.setAttribute("aria-label", `Remove ${nameOf(item)}`);
    b.addEventListener("click", () => remove(item.id));
    return make("li", make("span", nameOf(item)), b);
  }));
}

/** @param {Recommendations} list @param {(id: string) => void} pick */
export function recommendations(list, pick) {
  const note = list.note ?? "";
  $("note").textContent = note ? short(note[0].toUpperCase() + note.slice(1)) : "";
  $("note").hidden = !note;
  $("recommended").dataset.basis = list.basis;
  $("recommended").replaceChildren(...(list.items ?? []).map((item) => {
    const b = make("button", "Pick");
    b.setAttribute("aria-label", `Pick ${nameOf(item)}`);
    b.addEventListener("click", () => pick(item.id));
    return make("li", make("span", nameOf(item)), b);
  }));
}

/** @param {About} a */
export function about(a) {
  if (a.federation) {
    $("federation").textContent = short(a.federation);
    document.title = `${short(a.federation)}: Tacit device`;
  }
  $("pause").textContent = a.paused ? "Resume" : "Pause";
  $("pause").dataset.on = String(a.paused);
  const sent = (a.log ?? []).filter((r) => r.state !== "declined" && r.state !== "noted");
  const counted = sent.filter((r) => r.state === "counted").length;
  $("totals").replaceChildren(...[
    ["Reports counted", whole.format(counted)],
    ["Sent in reports", bytes(sent.reduce((n, r) => n + r.bytes, 0))],
    ["Model downloads", bytes(a.fetched_all)],
    ["Model version", whole.format(a.model)],
  ].map(([name, value]) => make("div", make("dt", name), make("dd", value))));
  $("guarantee").textContent = guarantee(a);
  reports(a.log ?? []);
  $("kept").replaceChildren(...[
    `${a.events === 1 ? "1 pick" : `${whole.format(a.events)} picks`}, with their times`,
    "What you search for, and what is recommended to you",
    "The private part of the model, if the method has one",
    a.enrolled ? `The key of device ${whole.format(a.seat)}, which signs its requests` : "The key of this device",
  ].map((line) => make("li", line)));
}

/** @param {About} a */
function guarantee(a) {
  if (!a.guarantee) return "The guarantee is known when the device has a model.";
  const masked = a.guarantee.masked
    ? "Updates are masked: the coordinator learns only sums over many devices."
    : "Updates are not masked: the coordinator receives the update of this device.";
  const dp = a.guarantee_text === "no differential privacy"
    ? "No noise is added: the federation has no differential privacy."
    : `Differential privacy: ${a.guarantee_text}.`;
  return `${masked} ${dp}`;
}

const kinds = { train: "Training", evaluate: "Evaluation", count: "Item counts", plan: "Plan", budget: "Budget" };

/** @param {import("./device/index.js").Report[]} log */
function reports(log) {
  $("no-reports").hidden = log.length > 0;
  $("reports").replaceChildren(...log.slice(-20).reverse().map((r) => {
    const kind = /** @type {Record<string, string>} */ (kinds)[r.kind] ?? short(r.kind);
    const state = r.state === "" ? "sent, not settled" : r.state;
    const cells = [
      `${kind}, round ${r.round + 1}`, whole.format(r.numbers), whole.format(r.bytes),
      r.masked ? "masked" : "clipped and rounded", whole.format(r.noise),
      r.reason ? `${state}: ${short(r.reason)}` : state,
    ];
    return make("tr", ...cells.map((c) => make("td", c)));
  }));
}

/** What each request contains, besides the signature of the device's key. */
const contents = {
  Hello: "protocol versions",
  Enrol: "public key and enrolment token",
  CheckIn: "model version, name of the program, last round counted",
  Fetch: "hash of a part of the model that every device downloads",
  Report: "an update, as listed above",
  Mask: "keys, encrypted shares and masked numbers of a report",
  Leave: "the wish to leave",
};

/** @type {Map<string, {times: number, sent: number, received: number}>} */
const tally = new Map();

/** @param {{call: string, sent: number, received: number}} r */
export function request({ call, sent, received }) {
  const t = tally.get(call) ?? { times: 0, sent: 0, received: 0 };
  tally.set(call, { times: t.times + 1, sent: t.sent + sent, received: t.received + received });
  $("requests").replaceChildren(...[...tally].map(([name, n]) => make("tr",
    make("td", name), make("td", whole.format(n.times)), make("td", whole.format(n.sent)),
    make("td", whole.format(n.received)),
    make("td", /** @type {Record<string, string>} */ (contents)[name] ?? ""))));
}

export function forgotten() {
  picked_ = new Set();
  for (const id of ["found", "picks", "recommended", "totals", "reports", "kept"]) $(id).replaceChildren();
  for (const id of ["note", "guarantee"]) $(id).textContent = "";
  $("search").value = "";
  $("search").disabled = $("pause").disabled = $("forget").disabled = true;
  $("count").textContent = "0";
  $("no-picks").hidden = false;
  $("stored").hidden = true;
  hideProblem();
  $("enrol").hidden = true;
  status("This device was forgotten. Reload the page to start again.");
}
