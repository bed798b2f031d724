import "./style/fonts.css"
import "./style/base.css"
import "./style/parts.css"
import "./style/charts.css"
import "./style/pages.css"
import { StrictMode } from "react"
import { createRoot } from "react-dom/client"
import { App } from "./App.tsx"

const root = document.getElementById("root")
if (root !== null)
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>
  )
