import { Console, Effect } from "effect"
import { Command, Flag } from "effect/cli"
import { randomBytes } from "node:crypto"
import { CardRewardsSandbox } from "../CardRewards.ts"
import { connectionFlags, connectionOf } from "./Connection.ts"
import { makeEventLog } from "./EventLog.ts"
import { examples } from "./Examples.ts"
import { Refused } from "./Exit.ts"
import { Stage, type Step } from "./Trigger/Stage.ts"
import { stories, type Story } from "./Trigger/Stories.ts"

const json = Flag.Boolean("json").pipe(Flag.withDescription("Print one JSON value"), Flag.withDefault(false))

const command = ({ description, name, play }: Story) =>
  Command.make(
    name,
    { json, ...connectionFlags },
    Effect.fn(function*(flags) {
      const connection = yield* connectionOf(flags)
      if (connection.environment === "live") {
        return yield* new Refused({ message: "trigger works in the sandbox alone, and this is a key of production" })
      }
      const steps: Array<Step> = []
      const report = (step: Step) =>
        Effect.andThen(Effect.sync(() => steps.push(step)), flags.json ? Effect.void : Console.log(lineOf(step)))
      const newId = Effect.sync(() => `trigger-${randomBytes(6).toString("hex")}`)
      const api = yield* Effect.provide(CardRewardsSandbox, CardRewardsSandbox.layer(connection))
      yield* Effect.provideService(play, Stage, Stage.of({ api, log: yield* makeEventLog(connection), report, newId }))
      const webhooks = steps.flatMap((step) => step.webhooks)
      yield* Console.log(
        flags.json
          ? JSON.stringify({ story: name, steps, webhooks }, undefined, 2)
          : `Webhooks: ${webhooks.length === 0 ? "none" : webhooks.join(", ")}`
      )
    })
  ).pipe(Command.withDescription(description), examples([`trigger ${name}`, description]))

const lineOf = ({ name, text }: Step): string => `${name.padEnd(25)}  ${text}`

/** `card-rewards trigger`. */
export const trigger = Command.make("trigger").pipe(
  Command.withDescription(
    "Play a story in the sandbox, and name the webhooks that it causes. One with purchases enrolls a new user. Two " +
      "programs pay for such users alone; the first story that needs one publishes it, and moves the sandbox clock " +
      "by five minutes, after which it is in force. Your own programs pay for these users too, unless limited to others"
  ),
  Command.withShortDescription("Play a story in the sandbox that causes webhooks"),
  examples(["trigger claim", "A purchase, and the claim of its reward"]),
  Command.withSubcommands(stories.map(command))
)
