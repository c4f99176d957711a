// holdfast/testing: the published cases. Run them on your own store or environment to check the promises.
export type { Case } from "./case.ts";
export { storeCases, storeCasesFor } from "./stores.ts";
export type { StoreCase, StoreHarness } from "./store-cases/harness.ts";
export { environmentCases, solutionCases } from "./environments.ts";
export type { Call, EnvironmentCase, EnvironmentHarness, Solution, SolutionCase } from "./environments.ts";
export type { Appended, Commit, Entry, Filter, Heading, Listed, NewEntry, Snapshot, Store } from "../core/store.ts";
