// Search in pages that are opened from disk. Browsers start no Worker there, so the worker's
// script runs in a hidden frame instead. The name is what the theme's plugin `offline` and its
// search look for; without this file they would fetch one from the network.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...urls) => Promise.all(urls.map((one) => this.load(one)));
      this.ready = this.load(url);
    }

    load(url) {
      const script = this.inside.document.createElement("script");
      script.src = url;
      return new Promise((loaded, failed) => {
        script.onload = loaded;
        script.onerror = failed;
        this.inside.document.body.append(script);
      });
    }

    postMessage(data) {
      const message = new MessageEvent("message", { data });
      this.ready.then(() => this.inside.dispatchEvent(message));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
