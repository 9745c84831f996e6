// Where images come from: dropped, pasted, chosen; and live ones, from a camera or a video.

import { scaled } from "./geometry.js";
import { Stream } from "./server.js";

const SENT = 640; // longest side, in pixels, of the frames that are sent
const SHOWN = 1280; // and of those that are shown

/** Calls `take(files)` with every file that is dropped, pasted or chosen. */
export function listenForFiles({ input, hint, take }) {
  input.addEventListener("change", () => {
    take([...input.files]);
    input.value = "";
  });
  const hasFiles = (event) => [...(event.dataTransfer?.types || [])].includes("Files");
  let depth = 0;
  window.addEventListener("dragenter", (event) => {
    if (!hasFiles(event)) return;
    depth += 1;
    hint.hidden = false;
  });
  window.addEventListener("dragleave", () => {
    depth = Math.max(0, depth - 1);
    hint.hidden = depth === 0;
  });
  window.addEventListener("dragover", (event) => event.preventDefault());
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    hint.hidden = true;
    const files = [...(event.dataTransfer?.files || [])];
    if (files.length) take(files);
  });
  window.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files || [])];
    if (files.length) take(files);
  });
}

/** A camera, as something to play. */
export async function openCamera() {
  if (!navigator.mediaDevices?.getUserMedia) {
    throw new Error("The camera can be used on https pages and on localhost only.");
  }
  let media;
  try {
    media = await navigator.mediaDevices.getUserMedia({ video: { width: { ideal: 1280 } }, audio: false });
  } catch (error) {
    const words = {
      NotAllowedError: "The camera was not allowed. Allow it in the address bar and try again.",
      NotFoundError: "There is no camera here.",
      NotReadableError: "The camera is used by another program.",
    };
    throw new Error(words[error.name] || "The camera could not be opened.");
  }
  const video = document.createElement("video");
  video.muted = true;
  video.playsInline = true;
  video.srcObject = media;
  await video.play();
  return { video, close: () => media.getTracks().forEach((track) => track.stop()) };
}

/** A video file, as something to play. */
export async function openVideo(file) {
  const video = document.createElement("video");
  const url = URL.createObjectURL(file);
  video.muted = true;
  video.playsInline = true;
  video.loop = true;
  video.src = url;
  try {
    await video.play();
  } catch {
    URL.revokeObjectURL(url);
    throw new Error(`${file.name} is not a video that this browser can play.`);
  }
  return {
    video,
    close: () => {
      video.pause();
      URL.revokeObjectURL(url);
    },
  };
}

/** Plays a source through the server: each answer comes with the very frame it belongs to. */
export class Live {
  constructor(source, model, { shown, ended }) {
    this.source = source;
    this.waiting = new Map();
    this.times = [];
    this.shown = shown;
    this.stream = new Stream(model, (answer) => this.answered(answer), (words) => {
      this.close();
      ended(words);
    });
    this.small = document.createElement("canvas");
    this.tick();
  }

  tick() {
    if (this.closed) return;
    const again = () => this.tick();
    if (this.stream.hungry && !this.encoding && this.source.video.videoWidth) this.capture();
    if (document.hidden) setTimeout(again, 100);
    else requestAnimationFrame(again);
  }

  capture() {
    const { video } = this.source;
    const longest = Math.max(video.videoWidth, video.videoHeight);
    const size = (limit) => Math.min(1, limit / longest);
    const frame = document.createElement("canvas");
    frame.width = Math.round(video.videoWidth * size(SHOWN));
    frame.height = Math.round(video.videoHeight * size(SHOWN));
    frame.getContext("2d").drawImage(video, 0, 0, frame.width, frame.height);
    this.small.width = Math.round(video.videoWidth * size(SENT));
    this.small.height = Math.round(video.videoHeight * size(SENT));
    const small = this.small.getContext("2d", { willReadFrequently: true });
    small.drawImage(frame, 0, 0, this.small.width, this.small.height);
    if (this.stream.takesCanvas) {
      this.waiting.set(this.stream.send(this.small), frame); // nothing to send it to: not encoded
      return;
    }
    this.encoding = true;
    this.small.toBlob((blob) => {
      this.encoding = false;
      if (!this.closed && blob && this.stream.open) this.waiting.set(this.stream.send(blob), frame);
    }, "image/jpeg", 0.85);
  }

  answered(answer) {
    const frame = this.waiting.get(answer.frame);
    for (const number of this.waiting.keys()) if (number <= answer.frame) this.waiting.delete(number);
    if (!frame || this.closed || answer.error) return;
    const now = performance.now();
    this.times = [...this.times.filter((time) => now - time < 2000), now];
    const rate = this.times.length > 1 ? ((this.times.length - 1) * 1000) / (now - this.times[0]) : 0;
    const factor = frame.width / answer.width;
    this.shown(frame, { ...answer, faces: answer.faces.map((face) => scaled(face, factor)) }, rate);
  }

  close() {
    if (this.closed) return;
    this.closed = true;
    this.stream.close();
    this.source.close();
  }
}
