// The format for a published case: one named behaviour that any test runner can check.

/** One case. `Subject` is the object under test; every run gets a fresh one. */
export interface Case<Subject> {
  /** A sentence about behaviour. It starts with the id of its promise, if it has one. */
  name: string;
  /** Run the case only for subjects with this flag; without `needs`, for all subjects. */
  needs?: "persistent";
  /** Rejects with a message if the subject behaves differently. */
  run(subject: Subject): Promise<void>;
}
