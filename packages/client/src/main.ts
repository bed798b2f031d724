#!/usr/bin/env node
import { Runtime } from "effect"
import { createRequire } from "node:module"
import { commandLine } from "./CommandLine.ts"
import { codeOf } from "./CommandLine/Exit.ts"

const manifest: { readonly version: string } = createRequire(import.meta.url)("@card-rewards/client/package.json")

/** The disk is full, or the reader has ended. */
let isUnwritten = false

const runMain = Runtime.makeRunMain(({ fiber, teardown }) => {
  const interrupt = () => fiber.interruptUnsafe(fiber.id)
  process.on("SIGINT", interrupt).on("SIGTERM", interrupt)
  // connections that are kept open would delay the end
  fiber.addObserver((exit) => teardown(exit, (code) => process.exit(code)))
  process.stdout.on("error", ({ message }) => {
    if (!isUnwritten) process.stderr.write(`The output could not be written: ${message}\n`)
    isUnwritten = true
    interrupt()
  })
})

runMain(commandLine(process.argv.slice(2), manifest.version), {
  disableErrorReporting: true,
  // after the output's errors
  teardown: (exit, onExit) => void setImmediate(() => onExit(isUnwritten ? 1 : codeOf(exit)))
})
