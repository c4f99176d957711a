// What differs between the kinds of environment that `holdfast init` makes.

/** The files of one kind, as text. `environment` has NAME where the name goes. */
export interface Kind {
  /** What its pieces are, for the README. */
  parts: string;
  environment: string;
  solution: string;
  /** Prints tasks.jsonl. It imports nothing, because it is run before anything is installed. */
  generate: string;
}
