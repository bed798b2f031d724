import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { InvalidRequest, NotFound } from "../Errors.ts"
import { ProgramId } from "../Ids.ts"
import { integerUpTo } from "../Pagination.ts"
import {
  maxVersionNumber,
  Program,
  ProgramDefinition,
  ProgramRefused,
  ProgramSummary,
  ProgramVersionConflict,
  ProgramVersionPublished
} from "../Program.ts"
import { Simulation, SimulationRequest, SimulationTooLarge } from "../Simulation.ts"
import { RequestPipeline } from "./RequestPipeline.ts"

const VersionInPath = integerUpTo(maxVersionNumber, /^[1-9][0-9]{0,9}$/)

/** Reward programs and their immutable versions. */
export class Programs extends HttpApiGroup.make("programs").add(
  HttpApiEndpoint.put("publish", "/v1/programs/:programId/versions/:version", {
    params: { programId: ProgramId, version: VersionInPath },
    payload: ProgramDefinition,
    success: ProgramVersionPublished,
    error: [ProgramRefused, ProgramVersionConflict]
  }).annotateMerge(OpenApi.annotations({
    summary: "Publish a program version",
    description: "A published version never changes and takes effect at least 5 minutes after it is published. The " +
      "same content under the same number again is 200 with `duplicate: true`, other content is 409. A version that " +
      "violates rules is refused with all problems at once. An integrator has at most 50 programs, and a program 100 " +
      "versions. To stop a program, publish a version that pays nothing."
  })),
  HttpApiEndpoint.get("list", "/v1/programs", {
    success: Schema.Struct({ programs: Schema.Array(ProgramSummary) }).annotate({ description: "The programs by id." })
  }).annotateMerge(OpenApi.annotations({
    summary: "List programs",
    description: "The integrator's programs by id, with the numbers and times of their versions."
  })),
  HttpApiEndpoint.get("get", "/v1/programs/:programId", {
    params: { programId: ProgramId },
    success: Schema.Struct({ program: Program }).annotate({ description: "The program." }),
    error: NotFound
  }).annotateMerge(OpenApi.annotations({
    summary: "Read a program",
    description: "A program with its published versions."
  })),
  HttpApiEndpoint.post("simulate", "/v1/programs/:programId/simulations", {
    params: { programId: ProgramId },
    payload: SimulationRequest,
    success: Schema.Struct({ simulation: Simulation }).annotate({
      description: "What the candidate would have paid, and what was paid."
    }),
    error: [InvalidRequest, NotFound, ProgramRefused, SimulationTooLarge]
  }).annotateMerge(OpenApi.annotations({
    summary: "Simulate a version",
    description: "Compares what a candidate, an unpublished version, would have paid for past purchases with what " +
      "the program paid for them. Nothing is stored. The candidate's `effectiveFrom` and the limits of publication " +
      "do not apply; a candidate that violates another rule is refused as in a publication. Caps count from the " +
      "start of the month of `from`. " +
      "A simulation evaluates at most 1,000,000 purchases, and takes at most a minute. An integrator has one " +
      "simulation at a time; a second one is 503. So is one that has waited half a minute for those of others."
  }))
).middleware(RequestPipeline)
  .annotate(OpenApi.Description, "Reward programs and their immutable versions.") {}
