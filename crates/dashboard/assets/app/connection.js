// Where the data comes from: the server's one stream, or a recording within the page itself.

import { model } from "app/model";
import { countFrom } from "app/words";

/** A page that nobody sees takes no part: it comes back with a fresh snapshot. */
const HIDDEN_MS = 5000;

/** So many times as long as a picture takes, none is drawn: the page stays ready for whoever uses it. */
const REST = 2;

export function connect() {
  const recording = document.getElementById("recording");
  if (recording) return openRecording(JSON.parse(recording.textContent ?? "{}"));
  let stream = open();
  /** @type {number|undefined} */
  let leaving;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(leaving);
    if (document.hidden) leaving = setTimeout(() => stream?.close(), HIDDEN_MS);
    else if (stream.readyState === EventSource.CLOSED) stream = open();
  });
}

/** @param {{title: string, begin: number, countFrom?: number, base: import("app/model").Frame, frames: import("app/model").Frame[], notes?: {warnings: string[], verdict: string, failed: boolean}}} recording */
function openRecording(recording) {
  model.connection = "recording";
  model.title = recording.title;
  model.notes = recording.notes ? { ...recording.notes, begin: recording.begin } : null;
  model.hello = { viewer: "", all: true, acts: false, speed: null, cluster: recording.title };
  countFrom(recording.countFrom ?? recording.begin);
  model.reset(recording.base);
  for (const frame of recording.frames) model.apply(frame);
  model.seek(recording.begin ?? model.base.t);
}

function open() {
  const stream = new EventSource("stream");
  let pending = false;
  let beginning = true;
  let rested = 0;
  const show = () => {
    pending = false;
    const begun = performance.now();
    model.changed();
    // When this comes the picture is drawn.
    setTimeout(() => (rested = performance.now() + (performance.now() - begun) * REST));
  };
  // Many frames make one picture; the longer a picture takes, the fewer there are.
  const soon = () => {
    if (pending || beginning) return;
    pending = true;
    const wait = rested - performance.now();
    if (wait > 0) setTimeout(() => requestAnimationFrame(show), wait);
    else requestAnimationFrame(show);
  };
  stream.addEventListener("hello", (event) => {
    const hello = JSON.parse(event.data);
    model.hello = hello;
    model.setClock(hello.now);
    beginning = true;
  });
  stream.addEventListener("base", (event) => {
    model.reset(JSON.parse(event.data));
  });
  stream.addEventListener("live", () => {
    beginning = false;
    model.connection = "live";
    model.changed();
  });
  stream.addEventListener("now", (event) => {
    const { now, speed } = JSON.parse(event.data);
    model.hello = { ...model.hello, speed };
    model.setClock(now);
    soon();
  });
  stream.onmessage = (event) => {
    const frame = JSON.parse(event.data);
    model.apply(frame);
    if (!beginning && frame.t > model.now()) model.setClock(frame.t);
    soon();
  };
  stream.onerror = () => {
    model.connection = "lost";
    model.changed();
  };
  return stream;
}

/** Asks for something that is in no row. @param {string} path @param {Record<string, string>} query */
export async function ask(path, query) {
  try {
    const answer = await fetch(`${path}?${new URLSearchParams(query)}`, { credentials: "same-origin" });
    return await answer.json();
  } catch {
    return { error: "The server does not answer." };
  }
}

/** Does something to the cluster. @param {object} action @returns {Promise<{done?: string, error?: string}>} */
export async function act(action) {
  const answer = await fetch("act", {
    method: "POST",
    credentials: "same-origin",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(action),
  });
  const text = await answer.text();
  try {
    return JSON.parse(text);
  } catch {
    return { error: text.trim() };
  }
}
