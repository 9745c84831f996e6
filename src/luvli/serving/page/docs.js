// The API's page, made of /openapi.json.

import { make } from "./panel.js";

for (const span of document.querySelectorAll(".origin")) span.textContent = location.origin;

const description = await (await fetch("/openapi.json")).json();
const root = document.getElementById("paths");
root.append(make("h2", {}, "Paths"));
for (const [path, methods] of Object.entries(description.paths)) {
  for (const [method, about] of Object.entries(methods)) root.append(card(path, method, about));
}

function card(path, method, about) {
  const box = make("section", { className: "card path" },
    make("h3", {}, make("span", { className: "method" }, method.toUpperCase()), make("code", {}, path)),
    make("p", { className: "words" }, about.summary || ""));
  const parameters = about.parameters || [];
  if (parameters.length) box.append(table(["option", "what it is"], parameters.map((p) => [p.name, p.description || ""])));
  const answers = Object.entries(about.responses || {}).map(([status, response]) => [status, response.description]);
  if (answers.length > 1) box.append(table(["status", "when"], answers));
  return box;
}

function table(head, rows) {
  return make("table", {},
    make("thead", {}, make("tr", {}, ...head.map((word) => make("th", { scope: "col" }, word)))),
    make("tbody", {}, ...rows.map(([name, words]) =>
      make("tr", {}, make("th", { scope: "row" }, make("code", {}, name)), make("td", {}, words)))));
}
