// Numbers, times and names as people read them.

/** `45s`, `3m20s`, `2h`: as `steersman why` writes durations. @param {number} seconds */
export function human(seconds) {
  const total = Math.max(0, Math.round(seconds));
  const minutes = Math.floor(total / 60);
  const hours = Math.floor(total / 3600);
  if (total < 120) return `${total}s`;
  if (minutes < 10) return total % 60 ? `${minutes}m${total % 60}s` : `${minutes}m`;
  if (minutes < 180) return `${minutes}m`;
  if (hours < 8) return minutes % 60 ? `${hours}h${minutes % 60}m` : `${hours}h`;
  if (hours < 48) return `${hours}h`;
  return `${Math.floor(hours / 24)}d`;
}

/** `3 pods`, `1 pod`. @param {number} count @param {string} noun */
export function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;
}

/** The moment from which a recording counts. @type {number|null} */
let origin = null;

/** A recording has no time of day. @param {number} at */
export function countFrom(at) {
  origin = at;
}

/** `09:43:07` of a time in milliseconds, or `+12s` in a recording. @param {number} at */
export function clock(at) {
  if (origin !== null) return at < origin ? "before" : `+${human((at - origin) / 1000)}`;
  return new Date(at).toLocaleTimeString([], { hour12: false });
}

/** `deployment/web`. @param {{kind: string, name: string}} object */
export function short(object) {
  return `${object.kind.toLowerCase()}/${object.name}`;
}

/** The link to an object's page. @param {{kind: string, ns?: string, namespace?: string, name: string}} object */
export function link(object) {
  const namespace = object.ns || object.namespace || "-";
  return `#/object/${object.kind}/${namespace}/${encodeURIComponent(object.name)}`;
}

/** The key of an object's row. @param {{kind: string, ns?: string, namespace?: string, name: string}} object */
export function keyOf(object) {
  return `${object.kind}/${object.ns || object.namespace || ""}/${object.name}`;
}

/** The name of a controller without the word that all of them share. @param {string} name */
export function controllerName(name) {
  return name.replace(/-controller$/, "");
}
