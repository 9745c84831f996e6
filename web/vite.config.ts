import { defineConfig } from "vite";

// The package: one ES module beside its types; onnxruntime-web stays a dependency.
export default defineConfig({
  publicDir: false,
  build: {
    lib: { entry: "src/index.ts", formats: ["es"], fileName: "luvli-web" },
    rollupOptions: { external: [/^onnxruntime-web/] },
    target: "es2022",
  },
  test: { include: ["test/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
