// Puts the page together: what is shown, what was chosen, what happens next.

import { ellipse, radiusOf } from "./geometry.js";
import { keepCsv, keepJson, keepPng } from "./keep.js";
import { make, renderAll, renderFaces, renderLeast, renderLegend, renderMeasures, renderSummary, renderTip, spoken } from "./panel.js";
import { asPng, fetchModels, onTokenWanted, predict } from "./server.js";
import { formatSettings, parseSettings } from "./settings.js";
import { Live, listenForFiles, openCamera, openVideo } from "./sources.js";
import { listenForKeys } from "./keys.js";
import { renderStrip } from "./strip.js";
import { View } from "./view.js";
import { welcome } from "./welcome.js";

const ALERT_SECONDS = 12;
const $ = (id) => document.getElementById(id);
const state = {
  settings: parseSettings(location.hash),
  models: [],
  limits: {},
  items: [],
  current: -1,
  chosen: { face: 0, landmark: null },
  live: null,
  tableOf: "least",
};
const item = () => state.items[state.current];
const faces = () => item()?.answer?.faces || [];
const face = () => faces()[state.chosen.face];
const model = () => {
  const name = item()?.answer?.model || state.settings.model;
  return state.models.find((known) => known.name === name) || state.models[0] || { radius: {} };
};

const view = new View($("view"), () => ({
  source: item()?.source,
  live: item()?.live,
  width: item()?.width || 0,
  height: item()?.height || 0,
  faces: item()?.answer?.faces,
  model: model(),
  settings: state.settings,
  chosen: state.chosen,
}), {
  zoomed: (scale) => { $("zoom").textContent = `${Math.round(scale * 100)} %`; placeTip(); },
  hovered: (found) => hover(found),
  chose: (found) => found && choose(found.face, found.landmark),
});

// -- words ------------------------------------------------------------------------------------

function say(words) {
  $("said").textContent = words;
}

function alertUser(words) {
  const close = make("button", { type: "button", className: "icon-button", ariaLabel: "Dismiss" });
  close.innerHTML = '<svg><use href="#i-close"/></svg>';
  const box = make("div", { className: "alert" }, make("p", {}, words), close);
  close.addEventListener("click", () => box.remove());
  $("alerts").append(box);
  while ($("alerts").childElementCount > 3) $("alerts").firstElementChild.remove();
  const leave = () => {
    if (box.matches(":hover, :focus-within")) setTimeout(leave, 2000); // somebody is reading it
    else box.remove();
  };
  setTimeout(leave, ALERT_SECONDS * 1000);
}

// -- images -----------------------------------------------------------------------------------

async function take(files) {
  const videos = files.filter((file) => file.type.startsWith("video/"));
  const images = files.filter((file) => !file.type.startsWith("video/"));
  if (videos.length) return play(() => openVideo(videos[0]), videos[0].name);
  stopLive();
  const added = images.map((file) => ({ name: file.name || "pasted image", blob: file, status: "waiting" }));
  const before = item();
  state.items = [...state.items.filter((old) => !old.live), ...added];
  show(state.items.length - added.length);
  for (const next of added) await look(next, before);
}

async function look(next, before) {
  next.status = "working";
  refreshStrip();
  try {
    if (next.blob.size > state.limits.max_bytes) {
      throw new Error(`It has ${(next.blob.size / 1e6).toFixed(1)} MB, the server takes ${state.limits.max_bytes / 1e6} MB.`);
    }
    try {
      next.source = await createImageBitmap(next.blob);
      next.width = next.source.width;
      next.height = next.source.height;
    } catch {
      next.source = null; // the server has the last word on what an image is
    }
    if (next === item()) view.fit();
    next.answer = await predict(next.blob, state.settings.model, "application/json", working);
    if (!next.source) {
      next.source = await createImageBitmap(await asPng(next.blob)); // HEIC, for example
      next.width = next.source.width;
      next.height = next.source.height;
    }
    next.status = "done";
    if (next === item()) arrived(next);
  } catch (error) {
    next.status = "error";
    next.error = error.message;
    alertUser(`${next.name}: ${error.message}`);
    if (!next.source) dropItem(next, before);
  }
  refresh();
}

/** The image a quarter turn clockwise, looked at again. */
async function rotate(turned) {
  const { source, width, height } = turned;
  const canvas = new OffscreenCanvas(height, width);
  const context = canvas.getContext("2d");
  context.translate(height, 0);
  context.rotate(Math.PI / 2);
  context.drawImage(source, 0, 0, width, height);
  turned.blob = await canvas.convertToBlob({ type: "image/png" });
  turned.answer = turned.words = null;
  await look(turned);
}

function dropItem(gone, before) {
  const shown = item(); // stays, wherever it comes to stand; instead of the one that goes: the last before
  state.items = state.items.filter((kept) => kept !== gone);
  const index = state.items.indexOf(shown === gone ? before : shown);
  if (shown === gone) show(index < 0 ? state.items.length - 1 : index);
  else state.current = index;
}

function arrived(done) {
  const count = done.answer.faces.length;
  const found = count === 0 ? "No face was found" : count === 1 ? "One face" : `${count} faces`;
  done.words = `${found} in ${Math.round(done.answer.timings.total)} ms`;
  if (done.answer.faces_left_out) done.words += `, ${done.answer.faces_left_out} more left out`;
  say(`${done.name}: ${done.words}`);
  view.fit();
}

function working(words) {
  $("busy").textContent = words;
}

function show(index) {
  state.current = index;
  state.chosen = { face: 0, landmark: null };
  const shown = item();
  if (shown?.answer && !shown.words) arrived(shown);
  view.fit();
  refresh();
}

// -- live -------------------------------------------------------------------------------------

async function play(open, name) {
  stopLive();
  let source;
  try {
    source = await open();
  } catch (error) {
    alertUser(error.message);
    return;
  }
  const live = { name, live: true, status: "done" };
  state.items = [...state.items.filter((old) => !old.live), live];
  state.current = state.items.length - 1;
  state.chosen = { face: 0, landmark: null };
  state.live = new Live(source, state.settings.model, {
    shown: (frame, answer, rate) => {
      const first = !live.source;
      live.source = frame;
      live.width = frame.width;
      live.height = frame.height;
      live.answer = answer;
      live.words = `${rate.toFixed(0)} frames a second`;
      if (live !== item()) return;
      if (state.chosen.face >= answer.faces.length) state.chosen = { face: 0, landmark: null };
      if (first) view.fit();
      else view.draw();
      refreshPanel(first);
    },
    ended: (words) => { stopLive(); alertUser(words); refresh(); },
  });
  refresh();
}

function stopLive() {
  const live = state.live;
  state.live = null;
  live?.close();
  for (const shown of state.items) shown.live = false; // the last frame stays as an image
  state.items = state.items.filter((shown) => shown.source || shown.blob);
  state.current = Math.min(state.current, state.items.length - 1);
}

// -- landmarks --------------------------------------------------------------------------------

let hovered = null;

function hover(found) {
  hovered = found;
  $("view").classList.toggle("over-landmark", Boolean(found));
  const before = state.chosen;
  if (found) state.chosen = found;
  view.drawOverlay();
  state.chosen = before;
  placeTip();
}

function choose(number, landmark, approach = false) {
  state.chosen = { face: number, landmark };
  hovered = null;
  const current = face();
  if (landmark !== null && current) {
    if (approach) {
      const { a } = ellipse(current, landmark, radiusOf(current, landmark, model(), state.settings));
      const [x, y] = current.points[landmark];
      const reach = Math.max(Number.isFinite(a) ? 3 * a : 0, 0.16 * (current.box[2] - current.box[0]));
      view.show([x - reach, y - reach, x + reach, y + reach], 1.2);
    } else {
      view.reveal(current.points[landmark]);
    }
    say(spoken(current, model(), landmark));
  }
  view.drawOverlay();
  refreshPanel(true);
  placeTip();
}

function placeTip() {
  const shown = hovered || (state.chosen.landmark !== null ? state.chosen : null);
  const owner = shown && faces()[shown.face];
  const tip = $("tip");
  tip.hidden = !owner;
  if (!owner) return;
  renderTip(tip, owner, model(), shown.landmark, radiusOf(owner, shown.landmark, model(), state.settings));
  const [x, y] = view.place(owner.points[shown.landmark]);
  const width = tip.offsetWidth;
  const height = tip.offsetHeight;
  const left = x + 18 + width < view.width ? x + 18 : x - 18 - width;
  const top = Math.min(Math.max(8, y - height / 2), view.height - height - 8);
  tip.style.transform = `translate(${Math.round(Math.max(8, left))}px, ${Math.round(top)}px)`;
}

// -- everything on the page -------------------------------------------------------------------

function refresh() {
  const shown = item();
  $("empty").hidden = Boolean(shown);
  $("busy").hidden = !(shown && shown.status === "working");
  if (!$("busy").hidden) $("busy").textContent = "Looking for faces …";
  $("camera").setAttribute("aria-pressed", String(Boolean(state.live)));
  $("camera").querySelector("span").textContent = state.live ? "Stop" : "Camera";
  $("camera").querySelector("use").setAttribute("href", state.live ? "#i-stop" : "#i-camera");
  refreshStrip();
  refreshPanel(true);
  applySettings();
  view.draw();
}

function refreshStrip() {
  renderStrip($("strip"), state.items, state.current, show);
}

function refreshPanel(whole) {
  const current = face();
  const shown = item();
  $("status").textContent = shown?.words || "";
  $("faces-card").hidden = $("table-card").hidden = !current;
  $("no-face").hidden = !shown?.blob || shown.status !== "done" || Boolean(current);
  $("measures-card").hidden = !current?.measures;
  $("keep-card").hidden = !shown?.answer;
  $("landmarks").hidden = !current;
  if (!current) return;
  if (whole) {
    renderFaces($("faces"), faces(), state.chosen.face, (number) => {
      choose(number, null);
      view.show(face().box, 2.2);
    });
    renderOptions(current);
  }
  renderSummary($("summary"), current);
  const tools = {
    choose: (j, approach) => choose(state.chosen.face, j, approach),
    hover: (j) => hover(j === null ? null : { face: state.chosen.face, landmark: j }),
  };
  const least = state.tableOf === "least";
  if (!whole && state.live && Date.now() - (refreshPanel.last || 0) < 300) return;
  refreshPanel.last = Date.now();
  if (current.measures) renderMeasures($("measures"), current, model());
  $("least").hidden = !least;
  $("all").hidden = least;
  if (document.activeElement?.closest("#least, #all") && !whole) return;
  const focused = document.activeElement?.closest?.("#least button")?.dataset.landmark;
  if (least) renderLeast($("least"), current, model(), tools);
  else renderAll($("all"), current, model(), tools);
  if (focused !== undefined) $("least").querySelector(`[data-landmark="${focused}"]`)?.focus();
  document.querySelector(`#all tr[data-landmark="${state.chosen.landmark}"]`)?.classList.add("chosen");
}

function renderOptions(current) {
  const list = $("landmarks");
  list.setAttribute("aria-label", `Landmarks of face ${state.chosen.face + 1}`);
  list.replaceChildren(...current.points.map((_, j) => {
    const option = make("li", { role: "option", id: `landmark-${j}` }, spoken(current, model(), j));
    option.setAttribute("aria-selected", String(j === state.chosen.landmark));
    return option;
  }));
  if (state.chosen.landmark === null) list.removeAttribute("aria-activedescendant");
  else list.setAttribute("aria-activedescendant", `landmark-${state.chosen.landmark}`);
}

function applySettings() {
  const { settings } = state;
  const fragment = formatSettings(settings);
  history.replaceState(null, "", fragment ? `#${fragment}` : location.pathname);
  document.documentElement.dataset.theme = settings.theme;
  $("coverage").value = settings.coverage;
  $("coverage-out").textContent = `${settings.coverage} %`;
  for (const name of ["points", "ellipses", "lines", "boxes"]) $(`show-${name}`).checked = settings[name];
  $("colour").value = settings.colour;
  if (settings.model) $("model").value = settings.model;
  const guaranteed = faces().some((known) => known.guaranteed);
  $("region").hidden = !guaranteed;
  document.querySelector(`input[name="region"][value="${settings.region}"]`).checked = true;
  $("coverage-words").textContent = guaranteed && settings.region === "guaranteed"
    ? `Measured on held-out faces: at least ${settings.coverage} % of such ellipses hold the true place.`
    : `Each ellipse holds the true place with a probability of ${settings.coverage} %, by the model’s own account.`;
  renderLegend($("legend"), settings.colour);
  if (!item()) welcome($("drawn"), model(), settings);
  view.drawOverlay();
  placeTip();
}

function set(changes) {
  Object.assign(state.settings, changes);
  applySettings();
}

function listen() {
  for (const id of ["choose", "choose-first"]) $(id).addEventListener("click", () => $("file").click());
  $("camera").addEventListener("click", () => {
    if (!state.live) return play(openCamera, "camera");
    stopLive();
    refresh();
  });
  $("camera-first").addEventListener("click", () => play(openCamera, "camera"));
  listenForFiles({ input: $("file"), hint: $("drop-here"), take });
  $("zoom-in").addEventListener("click", () => view.zoom(1.5));
  $("zoom-out").addEventListener("click", () => view.zoom(1 / 1.5));
  $("zoom-fit").addEventListener("click", () => view.fit());
  $("zoom-face").addEventListener("click", () => face() && view.show(face().box, 1.7));
  $("coverage").addEventListener("input", (event) => set({ coverage: Number(event.target.value) }));
  for (const name of ["points", "ellipses", "lines", "boxes"]) {
    $(`show-${name}`).addEventListener("change", (event) => set({ [name]: event.target.checked }));
  }
  $("colour").addEventListener("change", (event) => set({ colour: event.target.value }));
  $("region").addEventListener("change", (event) => set({ region: event.target.value }));
  $("model").addEventListener("change", async (event) => {
    set({ model: event.target.value });
    if (item()?.blob) await look(item());
  });
  $("rotate").addEventListener("click", () => rotate(item()));
  $("theme").addEventListener("click", () => {
    const dark = getComputedStyle(document.documentElement).colorScheme.trim() === "dark";
    set({ theme: dark ? "light" : "dark" });
  });
  for (const kind of ["least", "all"]) {
    $(`tab-${kind}`).addEventListener("click", () => {
      state.tableOf = kind;
      for (const other of ["least", "all"]) $(`tab-${other}`).setAttribute("aria-pressed", String(other === kind));
      refreshPanel(true);
    });
  }
  $("save-json").addEventListener("click", () => keepJson(item()));
  $("save-csv").addEventListener("click", () => keepCsv(item(), state.settings.model).catch((error) => alertUser(error.message)));
  $("save-png").addEventListener("click", () => keepPng(item(), model(), state.settings));
  $("copy-link").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      say("The link is copied.");
      $("status").textContent = "Link copied";
    } catch {
      alertUser(`Copy it from here: ${location.href}`);
    }
  });
  listenForKeys($("landmarks"), { view, state, face, choose, hover });
}

// -- start ------------------------------------------------------------------------------------

onTokenWanted((words) => new Promise((resolve) => {
  const dialog = $("token-dialog");
  $("token").value = "";
  $("token-error").textContent = words;
  $("token-error").hidden = !words;
  dialog.showModal();
  dialog.addEventListener("close", () => resolve($("token").value), { once: true });
}));

async function start() {
  listen();
  applySettings();
  refresh();
  for (const [name, words] of [["front", "looking ahead"], ["turned", "turned"], ["hidden", "behind a hand"]]) {
    const image = make("img", { src: `/page/examples/${name}.jpg`, alt: "", width: 92, height: 92 });
    const button = make("button", { type: "button", ariaLabel: `Try a rendered face ${words}` }, image, make("span", {}, words));
    button.addEventListener("click", async () => {
      const blob = await (await fetch(image.src)).blob();
      take([new File([blob], `${name}.jpg`, { type: blob.type })]);
    });
    $("examples").append(make("li", {}, button));
  }
  try {
    const offer = await fetchModels();
    state.models = offer.models;
    state.limits = offer.limits;
    $("about").textContent = `luvli ${offer.version}, ${offer.models.map((known) => known.name).join(", ")}`;
    $("model").hidden = offer.models.length < 2;
  } catch (error) {
    return alertUser(error.message);
  }
  $("model").replaceChildren(...state.models.map((known) => make("option", { value: known.name }, known.name)));
  if (!state.models.some((known) => known.name === state.settings.model)) state.settings.model = "";
  applySettings();
  document.documentElement.dataset.ready = "";
}

start();
