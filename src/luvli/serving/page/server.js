// Talks to the server: models, predictions, the stream. Errors are sentences.

let token = sessionStorage.getItem("token") || "";
let askForToken = async () => "";

/** `ask(words)` resolves to a token when the server wants one; the words say what was wrong with the last. */
export function onTokenWanted(ask) {
  askForToken = ask;
}

export class ServerError extends Error {}

const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** fetch with the token, again when the server is busy; `words(text)` tells what goes on. */
async function request(path, options = {}, words = () => {}) {
  for (let attempt = 0; ; attempt++) {
    const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    let response;
    try {
      response = await fetch(path, { ...options, headers });
    } catch {
      throw new ServerError("The server does not answer. Is it still running?");
    }
    if (response.ok) return response;
    if (response.status === 401) {
      token = await askForToken(token ? await sentence(response) : "");
      sessionStorage.setItem("token", token);
      continue;
    }
    if ((response.status === 503 || response.status === 429) && attempt < 6) {
      const seconds = Number(response.headers.get("Retry-After")) || 1;
      words(`The server is busy. Trying again in ${seconds} s.`);
      await pause(seconds * (0.8 + 0.4 * Math.random()));
      continue;
    }
    throw new ServerError(await sentence(response));
  }
}

async function sentence(response) {
  try {
    const { message } = (await response.json()).error;
    return message.charAt(0).toUpperCase() + message.slice(1);
  } catch {
    return `The server answered with status ${response.status}.`;
  }
}

const measured = new Map(); // model -> whether it has measures; null: the first one

/** Models and limits. */
export async function fetchModels() {
  const offer = await (await request("/v1/models")).json();
  for (const { name, measures } of offer.models.toReversed()) {
    measured.set(name, Object.keys(measures).length > 0).set(null, measured.get(name));
  }
  return offer;
}

/** Options of every prediction. */
function optionsFor(model) {
  return { regions: true, measures: measured.get(model || null) === true, ...(model ? { model } : {}) };
}

/** An image that this browser cannot show, as one that it can: the server's drawing of no faces. */
export async function asPng(blob) {
  const about = { method: "POST", body: blob, headers: { Accept: "image/png", "Content-Type": "application/octet-stream" } };
  return (await request("/v1/predict?boxes=[]", about)).blob();
}

/** The answer for one image: an object, or the text of a CSV. */
export async function predict(blob, model, kind, words) {
  const query = new URLSearchParams(optionsFor(model));
  const about = { method: "POST", body: blob, headers: { Accept: kind, "Content-Type": "application/octet-stream" } };
  const response = await request(`/v1/predict?${query}`, about, words);
  return kind === "text/csv" ? response.text() : response.json();
}

/** A live connection: frames in, faces out. */
export class Stream {
  constructor(model, answered, ended) {
    const place = new URL("/v1/stream", location.href);
    place.protocol = place.protocol.replace("http", "ws");
    this.socket = new WebSocket(place, token ? ["luvli", `bearer.${token}`] : ["luvli"]);
    this.sent = 0;
    this.inFlight = 0;
    this.socket.onopen = () => {
      this.socket.send(JSON.stringify(optionsFor(model)));
      this.open = true;
    };
    this.socket.onmessage = (event) => {
      const answer = JSON.parse(event.data);
      if (answer.frame === undefined) return ended(answer.error.message);
      this.inFlight = this.sent - answer.frame - 1;
      answered(answer);
    };
    this.socket.onclose = (event) => {
      this.open = false;
      if (!this.closing) ended(event.reason || "The stream was closed by the server.");
    };
  }

  /** Whether another frame would not wait long. */
  get hungry() {
    return this.open && this.inFlight < 2;
  }

  /** Send a frame; returns its number. */
  send(blob) {
    this.socket.send(blob);
    this.inFlight += 1;
    return this.sent++;
  }

  close() {
    this.closing = true;
    this.socket.close();
  }
}
