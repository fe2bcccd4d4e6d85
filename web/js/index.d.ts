/** Options of a device. */
export interface Options {
  /** Address of the coordinator, https://host:port. Default: the origin of the page. */
  url?: string;
  /** Enrolment token. A device that is enrolled needs none. */
  token?: string;
  /** Name of the device in this browser, if an origin has several. Default: "default". */
  name?: string;
  /** Memory for training in MiB. A plan that needs more is refused. Default: 256. */
  memoryMB?: number;
  /** Largest fraction of time that is spent computing. Default: 0.5. */
  duty?: number;
  /** Keep the newest item out of training, for evaluation. Default: true. */
  holdOut?: boolean;
  /** Take part in a deterministic federation only, for tests. */
  deterministic?: boolean;
  /** Address of tacit.wasm, if it is not beside worker.js. */
  wasm?: string | URL;
  /** A worker that runs worker.js, for bundlers that do not find it. */
  worker?: Worker;
}

/** An item of the catalogue. Titles come from the coordinator: set them with textContent. */
export interface Item {
  id: string;
  title: string;
  /** False if the catalogue does not have the item (yet). */
  known: boolean;
}

/** A recorded event. */
export interface Event extends Item {
  /** Milliseconds since 1970. */
  time: number;
}

/** What recommendations are based on. */
export type Basis = "personal" | "popular" | "new-user" | "unranked";

export interface Recommendation {
  id: string;
  title: string;
  score: number;
  basis: Basis;
}

export interface Recommendations {
  /** Model version. */
  version: number;
  /** When the model was created. */
  made: string;
  /** Rounds that the model contains. */
  round: number;
  federation: string;
  /** Items of the owner that the catalogue has. */
  known: number;
  basis: Basis;
  /** What to show beside a list that is not personal. */
  note?: string;
  /** The best first. */
  items: Recommendation[] | null;
}

/** The result of one check-in. */
export interface Step {
  /** waited, paused, stayed away, declined, trained, evaluated or counted items. */
  action: string;
  reason?: string;
  coordinator?: string;
  finished?: boolean;
  /** State of the report: counted, closed, or empty if it is not known yet. */
  state?: string;
  round?: number;
  model: number;
  samples?: number;
  bytes?: number;
  after_ns: number;
}

/** One report that the device made. */
export interface Report {
  made: string;
  settled?: string;
  /** train, evaluate or count; plan or budget if the entry is not about a report. */
  kind: string;
  run: string;
  round: number;
  model: number;
  /** Numbers in the update. */
  numbers: number;
  /** Bytes of the report; of all messages if it was masked. */
  bytes: number;
  /** SHA-256 of an unmasked report. */
  digest?: string;
  masked: boolean;
  /** Standard deviation of the noise that the device added to each number. */
  noise: number;
  state: string;
  reason: string;
  policy: string;
  guarantee: string;
}

/** The privacy guarantee, as the device itself computed it from the plan. */
export interface Guarantee {
  policy: string;
  epsilon: number;
  delta: number;
  against: string;
  rounds: number;
  runs: number;
  masked: boolean;
  method: string;
  [more: string]: unknown;
}

export interface About {
  federation: string;
  /** Public key of the device, in hexadecimal. */
  key: string;
  enrolled: boolean;
  /** Device ID. */
  seat: number;
  paused: boolean;
  events: number;
  /** Model version; 0 without a model. */
  model: number;
  /** Bytes downloaded for all model versions. */
  fetched_all: number;
  guarantee?: Guarantee;
  guarantee_text: string;
  log: Report[] | null;
  [more: string]: unknown;
}

/** One request to the coordinator. */
export interface Request {
  /** Hello, Enrol, CheckIn, Fetch, Report, Mask or Leave. */
  call: string;
  /** Bytes of its body. */
  sent: number;
  received: number;
}

/** Events of a device, with the type of their detail. */
export interface DeviceEvents {
  /** The device takes part in rounds; another page may have done so before. */
  start: CustomEvent<{}>;
  /** After each check-in. code and message are empty unless it failed. */
  step: CustomEvent<Step & { code: string; message: string }>;
  /** Each request that left the browser. */
  request: CustomEvent<Request>;
  /** The device takes part no more; with code and message if an error is the reason. */
  stop: CustomEvent<{ code?: string; message?: string }>;
  /** This page or another one deleted the device. */
  forgotten: CustomEvent<{}>;
  close: CustomEvent<{}>;
}

/** An error with a stable code, such as bad_token, no_model or unavailable. */
export class DeviceError extends Error {
  readonly code: string;
  constructor(message: string, code: string);
}

/** A device of a federation. All methods run in a worker; none blocks the page. */
export class Device extends EventTarget {
  private constructor();

  /** Opens the device of this origin, or creates one with a new key. Makes no calls to the coordinator. */
  static open(options?: Options): Promise<Device>;

  /** Deletes the state of a device that cannot be opened. The coordinator is not informed. */
  static erase(name?: string): Promise<void>;

  /** Enrols if necessary and takes part in rounds until stop. Resolves at once; events report the rest. */
  start(): Promise<void>;
  /** Ends start at the next safe point. */
  stop(): Promise<void>;
  /** Checks in once, for programs with a schedule of their own. */
  step(): Promise<Step>;

  /** Records an event with an item, now or at a time in milliseconds since 1970. */
  add(item: string, time?: number): Promise<void>;
  /** Removes all events with an item, and returns their number. */
  remove(item: string): Promise<number>;
  /** Returns the recorded events, the oldest first. */
  events(): Promise<Event[]>;

  /** Returns items of the catalogue by words of their titles, popular items first. */
  search(text: string, n?: number): Promise<Item[]>;
  /** Returns the n best items. Works offline. */
  recommend(n?: number): Promise<Recommendations>;
  /** Describes the device and lists its reports. */
  about(): Promise<About>;

  /** Stops the device from taking part, or lets it take part again. */
  pause(on?: boolean): Promise<void>;
  /** Leaves the federation and deletes state, key and model. The device cannot be used afterwards.
   *  Rejects if the coordinator could not be informed; everything is deleted in this browser all the same. */
  forget(): Promise<void>;
  /** Ends the worker. The state stays. */
  close(): void;

  addEventListener<K extends keyof DeviceEvents>(
    type: K, listener: (event: DeviceEvents[K]) => void, options?: boolean | AddEventListenerOptions): void;
  addEventListener(
    type: string, listener: EventListenerOrEventListenerObject | null,
    options?: boolean | AddEventListenerOptions): void;
}
