import { Schema, SchemaTransformation } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { NotFound } from "../Errors.ts"
import { ProgramId } from "../Ids.ts"
import {
  Program,
  ProgramDefinition,
  ProgramRefused,
  ProgramSummary,
  ProgramVersionConflict,
  ProgramVersionPublished,
  VersionNumber
} from "../Program.ts"
import { Authorization, RequestShape } from "./Authorization.ts"

const VersionInPath = Schema.String.check(
  Schema.isPattern(/^[1-9][0-9]{0,9}$/, { expected: "an integer from 1 to 2147483647" })
).pipe(Schema.decodeTo(
  VersionNumber,
  SchemaTransformation.transform({ decode: Number, encode: (value: number) => value.toString() })
))

/** Reward programs and their immutable versions. */
export class Programs extends HttpApiGroup.make("programs").add(
  HttpApiEndpoint.put("publish", "/v1/programs/:programId/versions/:version", {
    params: { programId: ProgramId, version: VersionInPath },
    payload: ProgramDefinition,
    success: ProgramVersionPublished,
    error: [ProgramRefused, ProgramVersionConflict]
  }).annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "ignore", errors: "all" }),
  HttpApiEndpoint.get("list", "/v1/programs", {
    success: Schema.Struct({ programs: Schema.Array(ProgramSummary) })
  }),
  HttpApiEndpoint.get("get", "/v1/programs/:programId", {
    params: { programId: ProgramId },
    success: Schema.Struct({ program: Program }),
    error: NotFound
  })
).middleware(RequestShape).middleware(Authorization) {}
