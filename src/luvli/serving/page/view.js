// The stage: an image with its faces, zoomed and moved by mouse, touch and keys.

import { nearest } from "./geometry.js";
import { drawFaces } from "./overlay.js";

const MOST = 40;

export class View {
  /** `look()` gives what to draw: source, live, width, height, faces, model, settings, chosen. */
  constructor(root, look, events) {
    this.root = root;
    this.image = root.querySelector("#image");
    this.overlay = root.querySelector("#overlay");
    this.look = look;
    this.events = events;
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.fitted = true;
    this.pointers = new Map();
    new ResizeObserver(() => this.resize()).observe(root);
    this.listen();
    this.resize();
  }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.root;
    this.width = width;
    this.height = height;
    this.ratio = ratio;
    for (const canvas of [this.image, this.overlay]) {
      canvas.width = Math.max(1, Math.round(width * ratio));
      canvas.height = Math.max(1, Math.round(height * ratio));
    }
    if (this.fitted) this.fit();
    else this.draw();
  }

  /** Show the whole image. */
  fit() {
    const { width, height } = this.look();
    if (!width) return this.draw();
    const margin = Math.min(24, this.width * 0.03);
    this.scale = Math.min((this.width - 2 * margin) / width, (this.height - 2 * margin) / height);
    this.x = (this.width - width * this.scale) / 2;
    this.y = (this.height - height * this.scale) / 2;
    this.fitted = true;
    this.changed();
  }

  /** Show a box of the image, with `air` times its size around it. */
  show([x0, y0, x1, y1], air = 1.5) {
    const side = Math.max(x1 - x0, y1 - y0, 1) * air;
    this.scale = Math.min(MOST, Math.min(this.width, this.height) / side);
    this.x = this.width / 2 - ((x0 + x1 + 1) / 2) * this.scale;
    this.y = this.height / 2 - ((y0 + y1 + 1) / 2) * this.scale;
    this.fitted = false;
    this.changed();
  }

  /** Enlarge by `factor` around a place of the view. */
  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const { width, height } = this.look();
    if (!width) return;
    const least = Math.min(1, 0.5 * Math.min(this.width / width, this.height / height));
    const scale = Math.min(MOST, Math.max(least, this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.fitted = false;
    this.changed();
  }

  move(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.fitted = false;
    this.changed();
  }

  /** Make sure that a place of the image can be seen. */
  reveal(point) {
    const [x, y] = this.place(point);
    const margin = 40;
    const dx = x < margin ? margin - x : x > this.width - margin ? this.width - margin - x : 0;
    const dy = y < margin ? margin - y : y > this.height - margin ? this.height - margin - y : 0;
    if (dx || dy) this.move(dx, dy);
  }

  changed() {
    this.events.zoomed(this.scale);
    this.draw();
  }

  /** Image pixels (first centre at 0, 0) to pixels of the view. */
  place([x, y]) {
    return [(x + 0.5) * this.scale + this.x, (y + 0.5) * this.scale + this.y];
  }

  draw() {
    this.drawImage();
    this.drawOverlay();
  }

  drawImage() {
    const context = this.image.getContext("2d");
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const { source, width, height, live } = this.look();
    if (!source) return;
    context.imageSmoothingEnabled = this.scale < 6;
    context.imageSmoothingQuality = live ? "low" : "high"; // the better one takes its time
    context.drawImage(source, this.x, this.y, width * this.scale, height * this.scale);
  }

  drawOverlay() {
    const context = this.overlay.getContext("2d");
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const look = this.look();
    if (look.faces) drawFaces(context, look.faces, (point) => this.place(point), this.scale, look);
  }

  // -- hands ---------------------------------------------------------------------------------

  listen() {
    const root = this.root;
    root.addEventListener("wheel", (event) => {
      if (!this.look().width) return;
      event.preventDefault();
      const [x, y] = this.at(event);
      this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)), x, y);
    }, { passive: false });
    root.addEventListener("pointerdown", (event) => {
      if (!this.look().width || event.target.closest("button, a")) return;
      this.pointers.set(event.pointerId, this.at(event));
      this.dragged = 0;
      root.setPointerCapture(event.pointerId);
    });
    root.addEventListener("pointermove", (event) => this.pointerMoved(event));
    for (const name of ["pointerup", "pointercancel"]) {
      root.addEventListener(name, (event) => {
        if (this.pointers.delete(event.pointerId) && this.dragged < 5) {
          this.events.chose(this.find(event, event.pointerType === "touch" ? 24 : 12));
        }
        root.classList.toggle("dragging", this.pointers.size > 0 && this.dragged > 4);
      });
    }
    root.addEventListener("pointerleave", () => this.events.hovered(null));
    root.addEventListener("dblclick", (event) => this.zoom(2, ...this.at(event)));
  }

  pointerMoved(event) {
    const now = this.at(event);
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      if (event.pointerType !== "touch") this.events.hovered(this.find(event, 12));
      return;
    }
    if (this.pointers.size === 1) {
      this.dragged += Math.hypot(now[0] - before[0], now[1] - before[1]);
      if (this.dragged > 4) {
        this.root.classList.add("dragging");
        this.move(now[0] - before[0], now[1] - before[1]);
      }
    } else {
      const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
      const length = (p) => Math.max(1, Math.hypot(p[0] - other[0], p[1] - other[1]));
      this.dragged += 10;
      this.zoom(length(now) / length(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      this.move((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
    }
    this.pointers.set(event.pointerId, now);
  }

  at(event) {
    const frame = this.root.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top];
  }

  find(event, reach) {
    const { faces } = this.look();
    const [x, y] = this.at(event);
    if (!faces) return null;
    return nearest(faces, (x - this.x) / this.scale - 0.5, (y - this.y) / this.scale - 0.5, reach / this.scale);
  }
}
