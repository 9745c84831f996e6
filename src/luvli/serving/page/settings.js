// What the viewer chose, kept in the link: #coverage=95&show=points,ellipses ...

export const DEFAULTS = {
  model: "",
  coverage: 90,
  region: "model",
  points: true,
  ellipses: true,
  lines: false,
  boxes: false,
  colour: "certainty",
  theme: "",
};

const LAYERS = ["points", "ellipses", "lines", "boxes"];
const CHOICES = {
  region: ["model", "guaranteed"],
  colour: ["certainty", "part", "plain"],
  theme: ["", "light", "dark"],
};

/** Settings from a link's fragment; whatever makes no sense is left at its default. */
export function parseSettings(fragment) {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const settings = { ...DEFAULTS };
  const coverage = Number(given.get("coverage"));
  if (given.has("coverage") && coverage >= 50 && coverage <= 99) settings.coverage = Math.round(coverage);
  if (given.has("show")) {
    const shown = given.get("show").split(",");
    for (const layer of LAYERS) settings[layer] = shown.includes(layer);
  }
  for (const [name, choices] of Object.entries(CHOICES)) {
    if (choices.includes(given.get(name))) settings[name] = given.get(name);
  }
  if (given.get("model")) settings.model = given.get("model").slice(0, 100);
  return settings;
}

/** The fragment of a link that brings the same settings back; defaults are left out. */
export function formatSettings(settings) {
  const parts = new URLSearchParams();
  if (settings.model) parts.set("model", settings.model);
  if (settings.coverage !== DEFAULTS.coverage) parts.set("coverage", settings.coverage);
  if (LAYERS.some((layer) => settings[layer] !== DEFAULTS[layer])) {
    parts.set("show", LAYERS.filter((layer) => settings[layer]).join(","));
  }
  for (const name of Object.keys(CHOICES)) {
    if (settings[name] !== DEFAULTS[name]) parts.set(name, settings[name]);
  }
  return parts.toString();
}
