import { copyFileSync, cpSync, mkdirSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { defineConfig, type Plugin } from "vite";

// The page of `luvli serve` as a static site: the module that asks the server is replaced by one
// that computes in the browser, and a few words and links with it.
const page = resolve(__dirname, "../src/luvli/serving/page");
const out = process.env.LUVLI_WEB_OUT ?? resolve(__dirname, "../site/demo");
const assets = process.env.LUVLI_WEB_ASSETS ?? resolve(__dirname, "assets");
const runtime = resolve(__dirname, "node_modules/onnxruntime-web/dist");

const WORDS: [string, string][] = [
  ['href="/" aria-label="LUVLi, start page"', 'href="./" aria-label="LUVLi, start page"'],
  ['<a class="text-button" href="/docs">API</a>', '<a class="text-button" href="../">Docs</a>'],
  ["Nothing is stored.", "Nothing leaves your device: the model runs in this browser."],
  ["Each with its standard deviation. Openness is height by width; brows, mouth and asymmetry are in distances between the outer eye corners; left and right are the person’s.",
   "Openness is the height of an eye by its width; left and right are the person’s."],
  ["Without it, use the API at /docs or the command luvli predict.", "Without it, use the command luvli predict."],
];

function staticPage(): Plugin {
  return {
    name: "luvli-static-page",
    enforce: "pre",
    resolveId(source, importer) {
      if (source.endsWith("/server.js") && importer?.startsWith(page)) return resolve(__dirname, "demo/engine.ts");
      return null;
    },
    transformIndexHtml: {
      order: "pre",
      handler(html) {
        for (const [served, alone] of WORDS) {
          if (!html.includes(served)) throw new Error(`the page no longer says: ${served}`);
          html = html.replace(served, alone);
        }
        return html.replaceAll('"/page/', '"./');
      },
    },
    transform(code, id) {
      return id.startsWith(page) && id.endsWith(".js") ? code.replaceAll("`/page/", "`./") : null;
    },
    closeBundle() {
      mkdirSync(`${out}/wasm`, { recursive: true });
      for (const kind of ["wasm", "mjs"]) {
        copyFileSync(`${runtime}/ort-wasm-simd-threaded.${kind}`, `${out}/wasm/ort-wasm-simd-threaded.${kind}`);
      }
      cpSync(assets, `${out}/models`, { recursive: true });
      cpSync(`${page}/examples`, `${out}/examples`, { recursive: true });
      const size = statSync(`${out}/wasm/ort-wasm-simd-threaded.wasm`).size + statSync(`${out}/models/luvli-68-open.onnx`).size;
      console.log(`runtime and model: ${(size / 1e6).toFixed(1)} MB`);
    },
  };
}

export default defineConfig({
  root: page,
  base: "./",
  publicDir: false,
  plugins: [staticPage()],
  resolve: { alias: { "onnxruntime-web/wasm": `${runtime}/ort.wasm.min.mjs` } },
  build: {
    outDir: out,
    emptyOutDir: true,
    target: "es2022",
    assetsDir: "assets",
    rollupOptions: { input: `${page}/index.html` },
  },
});
