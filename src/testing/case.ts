// What a published case is: a named piece of behaviour that any test runner, or none, can try.

/** One case. `Subject` is what it is tried on; each run gets a fresh one. */
export interface Case<Subject> {
  /** A sentence about behaviour. It starts with the id of the promise it is part of, where there is one. */
  name: string;
  /** Tried only where the subject says that it has this; without it, everywhere. */
  needs?: "persistent";
  /** Rejects, with a message that says what was wrong, if the subject does not behave so. */
  run(subject: Subject): Promise<void>;
}
