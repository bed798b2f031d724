import react from "@vitejs/plugin-react"
import { defineConfig } from "vite"

/**
 * Everything is a file of its own: nothing is inlined into the page, so that its content security policy can refuse
 * inline scripts, inline styles and `data:` addresses.
 */
export default defineConfig({
  base: "/console/",
  plugins: [react()],
  build: {
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 2_000
  }
})
