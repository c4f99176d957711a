// holdfast/testing: test cases for your own store or environment, and fault injection.
export type { Case } from "./case.ts";
export { storeCases, storeCasesFor } from "./stores.ts";
export type { StoreCase, StoreHarness } from "./store-cases/harness.ts";
export { environmentCases, solutionCases } from "./environments.ts";
export type { Call, EnvironmentCase, EnvironmentHarness, Solution, SolutionCase } from "./environments.ts";
export { faultyStore } from "./faulty-store.ts";
export type { FaultyStore, FaultyStoreOptions, StoreFault } from "./faulty-store.ts";
export { faultProxy } from "./fault-proxy.ts";
export type { FaultProxy, FaultProxyOptions, ProxyFault } from "./fault-proxy.ts";
