// What is known: rows and decisions, now and at every moment of the last minutes.
//
// The server sends the state as it was when the history begins (the base), and then frames: what was set, what is gone,
// what was decided. The state of any moment is the base with the frames up to then.

import { keyOf, short } from "app/words";

/**
 * @typedef {Object} Row
 * @property {string} kind
 * @property {string} name
 * @property {string} [ns]
 * @property {string} uid
 * @property {string} [owner]  the uid of the controller
 * @property {number} at  created, in seconds
 * @property {number} [gone]  asked to go, in seconds
 * @property {number} [rv]
 * @property {string} [node]
 * @property {string} [phase]
 * @property {string} [reason]
 * @property {boolean|number} [ready]
 * @property {number} [restarts]
 * @property {string} [hash]
 * @property {Record<string, string>} [labels]
 * @property {string} [zone]
 * @property {boolean} [unknown]
 * @property {boolean} [cordoned]
 * @property {boolean} [stopped]
 * @property {boolean} [simulated]
 * @property {boolean} [missing]  a node that is known by its pods alone
 * @property {number} [room]
 * @property {boolean} [workload]  it makes pods from a template
 * @property {boolean} [rolls]  a change of its template replaces its pods
 * @property {number} [wanted]
 * @property {number} [pods]
 * @property {number} [available]
 * @property {number} [updated]
 * @property {boolean} [seen]
 * @property {number} [revision]
 * @property {number} [generation]
 * @property {number} [surge]
 * @property {number} [unavailable]
 * @property {boolean} [open]  it may be unsettled
 * @property {string} [service]  the Service that a slice is of
 * @property {boolean} [paused]
 * @property {number} [healthy]
 * @property {number} [least]
 * @property {number} [allowed]
 * @property {number} [failed]
 * @property {Selector} [selector]
 * @property {string} [text]
 * @property {string} [target]
 * @property {string} [state]  of a verdict
 * @property {string} [verdict]
 * @property {{command?: string, why: string}} [help]
 * @property {string[]} [waits]
 * @property {{at: number, old: number, oldReady: number, new: number, newReady: number}[]} [samples]
 *
 * @typedef {{matchLabels?: Record<string, string>, matchExpressions?: {key: string, operator: string, values?: string[]}[]}} Selector
 * @typedef {{group?: string, kind: string, namespace?: string, name: string, uid?: string}} Named
 * @typedef {{class: "acts"|"waits"|"states", reason: string, object?: Named, what: string, why?: string, until?: string, hint?: string}} Line
 * @typedef {{t: number, controller: string, object: Named, lines: Line[], key?: string}} Decision  the key of its object, once it was asked for
 * @typedef {{t: number, set?: Record<string, Row>, gone?: string[], decisions?: Decision[]}} Frame
 * @typedef {{t: number, counts: Record<string, [number, number, number]>}} Sample  ready, not ready, terminating by hash
 */

/** As the server bounds its own. */
const FRAMES_MAX = 20000;
const HISTORY_MS = 15 * 60 * 1000;
const DECISIONS_MAX = 3000;
const SAMPLES_MAX = 2000;

/** Of more dependents the next moment is not looked for. */
const FAMILY_MAX = 100;

/** The state of one moment, with what is looked up in it. */
export class View {
  /** @param {number} t @param {Map<string, Row>} rows @param {Decision[]} decisions oldest first */
  constructor(t, rows, decisions) {
    this.t = t;
    this.rows = rows;
    this.decisions = decisions;
    /** @type {Map<string, Row>} */
    this.byUid = new Map();
    /** @type {Map<string, Row[]>} */
    this.children = new Map();
    /** @type {Map<string, Row[]>} */
    this.byKind = new Map();
    /** @type {Row[]} */
    this.rolling = [];
    for (const [key, row] of rows) {
      if (key.startsWith("why/") || key.startsWith("preview/")) continue;
      this.byUid.set(row.uid, row);
      push(this.byKind, row.kind, row);
      if (row.rolls) this.rolling.push(row);
      if (row.owner) push(this.children, row.owner, row);
    }
  }

  /** @param {string} kind */
  all(kind) {
    return this.byKind.get(kind) ?? [];
  }

  /** How many namespaces there are, as far as they show. */
  namespaces() {
    const names = new Set();
    for (const row of this.byUid.values()) names.add(row.kind === "Namespace" ? row.name : (row.ns ?? ""));
    names.delete("");
    return names.size;
  }

  /** Who is at the top of the owners. @param {Row} row */
  top(row) {
    let above = row;
    for (let depth = 0; depth < 4 && above.owner; depth += 1) {
      const owner = this.byUid.get(above.owner);
      if (!owner) break;
      above = owner;
    }
    return above;
  }

  /** The hash that pods of the newest template carry. @param {Row} workload */
  newest(workload) {
    if (workload.hash) return workload.hash;
    const children = this.children.get(workload.uid) ?? [];
    const sets = children.filter((row) => row.revision !== undefined);
    const newest = sets.reduce((best, row) => (!best || (row.revision ?? 0) > (best.revision ?? 0) ? row : best), /** @type {Row|undefined} */ (undefined));
    return newest?.hash;
  }

  /** What has to do with a workload beside what it owns. @param {Row} workload */
  around(workload) {
    const labels = workload.labels;
    if (!labels) return [];
    const near = (/** @type {Row} */ row) => row.ns === workload.ns && selects(row.selector, labels);
    const scales = (/** @type {Row} */ row) => row.ns === workload.ns && row.target === workload.name;
    return [
      ...this.all("Service").filter(near),
      ...this.all("PodDisruptionBudget").filter(near),
      ...this.all("HorizontalPodAutoscaler").filter(scales),
    ];
  }

  /** When only time has to pass: the next moment that the last decisions about an object name. @param {Named|Row} object */
  deadline(object) {
    const row = this.rows.get(keyOf(object));
    // What a ReplicaSet waits for holds up its Deployment, and so does what is to happen to a pod.
    const below = (/** @type {Row|undefined} */ owner) => (owner && this.children.get(owner.uid)) || [];
    const family = below(row).flatMap((child) => [child, ...below(child)]);
    const own = new Set([keyOf(object), ...family.slice(0, FAMILY_MAX).map(keyOf)]);
    const asked = new Set();
    let soonest;
    for (let index = this.decisions.length - 1; index >= 0 && index > this.decisions.length - 600; index -= 1) {
      const decision = this.decisions[index];
      const about = (decision.key ??= keyOf(decision.object));
      // Of each controller the last decision counts.
      if (!own.has(about) || asked.has(`${decision.controller} ${about}`)) continue;
      asked.add(`${decision.controller} ${about}`);
      for (const line of decision.lines) {
        const at = line.until ? Date.parse(line.until) : NaN;
        if (at > this.t && (!soonest || at < soonest.at)) soonest = { at, what: about === keyOf(object) || decision.object.kind === "ReplicaSet" ? line.what : `${short(decision.object)} ${line.what}` };
      }
    }
    return soonest;
  }
}

/** Does a label selector fit? @param {Selector|undefined} selector @param {Record<string, string>} labels */
export function selects(selector, labels) {
  if (!selector) return false;
  const wanted = Object.entries(selector.matchLabels ?? {});
  const rules = selector.matchExpressions ?? [];
  if (!wanted.length && !rules.length) return false;
  const fits = (/** @type {{key: string, operator: string, values?: string[]}} */ rule) => {
    const value = labels[rule.key];
    switch (rule.operator) {
      case "In": return value !== undefined && (rule.values ?? []).includes(value);
      case "NotIn": return value === undefined || !(rule.values ?? []).includes(value);
      case "Exists": return value !== undefined;
      default: return value === undefined;
    }
  };
  return wanted.every(([key, value]) => labels[key] === value) && rules.every(fits);
}

/** All moments. */
export class Model {
  constructor() {
    /** Before the first frame. @type {{t: number, rows: Map<string, Row>, decisions: Decision[]}} */
    this.base = { t: 0, rows: new Map(), decisions: [] };
    /** @type {Frame[]} */
    this.frames = [];
    /** As of now. @type {Map<string, Row>} */
    this.rows = new Map();
    /** @type {Decision[]} */
    this.decisions = [];
    this.last = 0;
    /** When what is known begins. */
    this.begun = 0;
    /** @type {Map<string, Map<string, Row>>} by the uid of their owner */
    this.podsOf = new Map();
    /** @type {Map<string, Row>} */
    this.uids = new Map();
    /** @type {Map<string, Sample[]>} by the uid of the workload */
    this.series = new Map();
    /** The moment that is shown; null for now. @type {number|null} */
    this.cursor = null;
    this.version = 0;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    /** @type {{key: string, view: View}|null} */
    this.cached = null;
    /** What the server said of itself. @type {{viewer: string, all: boolean, acts: boolean, speed: number|null, cluster: string}} */
    this.hello = { viewer: "", all: true, acts: false, speed: null, cluster: "" };
    /** @type {"connecting"|"live"|"lost"|"recording"} */
    this.connection = "connecting";
    this.title = "";
    /** Predictions that this viewer asked for, by key. @type {Map<string, Row>} */
    this.predictions = new Map();
    /** @type {{warnings: string[], verdict: string, failed: boolean, begin: number}|null} */
    this.notes = null;
    this.clockAt = { cluster: 0, page: 0 };
  }

  /** Starts over. @param {Frame} base */
  reset(base) {
    this.base = { t: base.t, rows: new Map(Object.entries(base.set ?? {})), decisions: base.decisions ?? [] };
    this.frames = [];
    this.rows = new Map(this.base.rows);
    this.decisions = [...this.base.decisions];
    this.last = base.t;
    this.begun = base.t;
    this.podsOf = new Map();
    this.uids = new Map();
    this.series = new Map();
    for (const [key, row] of this.rows) this.index(key, row);
    this.sample(base.t, new Set(this.podsOf.keys()));
    this.cached = null;
  }

  /** @param {Frame} frame */
  apply(frame) {
    this.frames.push(frame);
    this.last = Math.max(this.last, frame.t);
    const touched = new Set();
    for (const key of frame.gone ?? []) {
      const row = this.rows.get(key);
      this.rows.delete(key);
      if (row?.kind === "Pod" && row.owner) {
        this.podsOf.get(row.owner)?.delete(key);
        touched.add(row.owner);
      }
      if (row?.uid && this.uids.get(row.uid) === row) this.uids.delete(row.uid);
    }
    for (const [key, row] of Object.entries(frame.set ?? {})) {
      // A ReplicaSet that comes after its pods says whose they are.
      if (row.workload && row.owner && !this.uids.has(row.uid) && this.podsOf.has(row.uid)) touched.add(row.uid);
      this.rows.set(key, row);
      this.index(key, row);
      if (row.kind === "Pod" && row.owner) touched.add(row.owner);
    }
    this.sample(frame.t, touched);
    if (frame.decisions) {
      this.decisions.push(...frame.decisions);
      if (this.decisions.length > DECISIONS_MAX) this.decisions.splice(0, this.decisions.length - DECISIONS_MAX);
    }
    this.trim();
  }

  /** @param {string} key @param {Row} row */
  index(key, row) {
    if (!row.uid) return;
    this.uids.set(row.uid, row);
    if (row.kind === "Pod" && row.owner) {
      const held = this.podsOf.get(row.owner) ?? new Map();
      this.podsOf.set(row.owner, held.set(key, row));
    }
  }

  /** Notes how many pods there are of what, for the owners whose pods changed. @param {number} t @param {Set<string>} owners */
  sample(t, owners) {
    const tops = new Set();
    for (const owner of owners) tops.add(this.uids.get(owner)?.owner ?? owner);
    for (const top of tops) {
      /** @type {Record<string, [number, number, number]>} */
      const counts = {};
      for (const [owner, pods] of this.podsOf) {
        if (owner !== top && this.uids.get(owner)?.owner !== top) continue;
        for (const pod of pods.values()) {
          if (pod.phase === "Succeeded" || pod.phase === "Failed") continue;
          const count = (counts[pod.hash ?? ""] ??= [0, 0, 0]);
          count[pod.gone ? 2 : pod.ready ? 0 : 1] += 1;
        }
      }
      const held = this.series.get(top) ?? [];
      if (JSON.stringify(held[held.length - 1]?.counts) === JSON.stringify(counts)) continue;
      held.push({ t, counts });
      if (held.length > SAMPLES_MAX) held.shift();
      this.series.set(top, held);
    }
  }

  trim() {
    // What comes within a second of the beginning was there before, as on the server.
    const early = (/** @type {Frame} */ frame) => frame.t < this.begun + 1000;
    while (this.frames.length > FRAMES_MAX || (this.frames.length && early(this.frames[0])) || (this.connection !== "recording" && this.frames.length && this.last - this.frames[0].t > HISTORY_MS)) {
      const frame = /** @type {Frame} */ (this.frames.shift());
      for (const key of frame.gone ?? []) this.base.rows.delete(key);
      for (const [key, row] of Object.entries(frame.set ?? {})) this.base.rows.set(key, row);
      this.base.decisions = [...this.base.decisions, ...(frame.decisions ?? [])].slice(-400);
      this.base.t = frame.t;
    }
  }

  /** What time it is in the cluster. */
  now() {
    if (this.connection === "recording" || !this.clockAt.page) return this.last;
    const passed = (performance.now() - this.clockAt.page) * (this.hello.speed ?? 1);
    return Math.max(this.last, this.clockAt.cluster + passed);
  }

  /** @param {number} t */
  setClock(t) {
    this.clockAt = { cluster: t, page: performance.now() };
  }

  /** The moment that is shown. */
  shownAt() {
    return this.cursor ?? this.now();
  }

  /** The state of the moment that is shown. */
  view() {
    const key = this.cursor === null ? `live ${this.version}` : `at ${this.cursor}`;
    if (this.cached?.key === key) {
      if (this.cursor === null) this.cached.view.t = this.now();
      return this.cached.view;
    }
    const view = this.cursor === null ? new View(this.now(), this.rows, this.decisions) : this.viewAt(this.cursor);
    this.cached = { key, view };
    return view;
  }

  /** @param {number} t */
  viewAt(t) {
    const rows = new Map(this.base.rows);
    const decisions = [...this.base.decisions];
    for (const frame of this.frames) {
      if (frame.t > t) break;
      for (const key of frame.gone ?? []) rows.delete(key);
      for (const [key, row] of Object.entries(frame.set ?? {})) rows.set(key, row);
      if (frame.decisions) decisions.push(...frame.decisions);
    }
    return new View(t, rows, decisions);
  }

  /** @param {number|null} t */
  seek(t) {
    this.cursor = t === null ? null : Math.min(Math.max(t, this.base.t), this.last);
    this.changed();
  }

  changed() {
    this.version += 1;
    for (const listener of this.listeners) listener();
  }
}

/** @template V @param {Map<string, V[]>} map @param {string} key @param {V} value */
function push(map, key, value) {
  const held = map.get(key);
  if (held) held.push(value);
  else map.set(key, [value]);
}

export const model = new Model();
