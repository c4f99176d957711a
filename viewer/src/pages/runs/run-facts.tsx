// The facts of a run: its model, environment, date and settings.
import type { Json } from "../../../../src/core/json.ts";
import type { CollectionDetails } from "../../../../src/rollout/collection-view.ts";
import { linkTo } from "../../address.ts";
import type { NamedRun } from "../../data/references.ts";
import { useLoaded } from "../../data/use-loaded.ts";
import { usePageContext } from "../../page-context.ts";
import { Fact } from "../../parts/fact.tsx";
import { preview } from "../../parts/json-rows.ts";

/** Shown first, if they are set; the rest is folded. */
const main = ["repeats", "limit", "seed", "temperature", "max-steps", "timeout"];
const shownElsewhere = new Set(["model", "environment", ...main]);

export function RunFacts({ run }: { run: NamedRun }) {
  const { source, about } = usePageContext();
  const loaded = useLoaded(() => source.details(run.run), [source, run.run]);
  const settings: CollectionDetails["settings"] = loaded.state === "ready" ? loaded.value.settings : {};
  const { model, environment } = run;
  const isServed = about.environments.some(({ name }) => name === environment);
  const set = (names: string[]): string[] => names.filter((name) => (settings[name] ?? null) !== null);
  const rest = set(Object.keys(settings).filter((name) => !shownElsewhere.has(name)));
  return (
    <div class="row run-about">
      <dl class="run-facts">
        <Fact name="model">{model ?? <span class="dim">unknown</span>}</Fact>
        <Fact name="environment">
          {environment === null ? (
            <span class="dim">unknown</span>
          ) : isServed ? (
            <a href={linkTo(["sessions", environment])}>{environment}</a>
          ) : (
            environment
          )}
        </Fact>
        {set(main).map((name) => (
          <Fact key={name} name={name}>
            {shown(settings[name])}
          </Fact>
        ))}
      </dl>
      {rest.length > 0 && (
        <details>
          <summary>More settings</summary>
          <dl class="run-facts">
            {rest.map((name) => (
              <Fact key={name} name={name}>
                {shown(settings[name])}
              </Fact>
            ))}
          </dl>
        </details>
      )}
    </div>
  );
}

const shown = (value: Json | undefined): string =>
  typeof value === "string" ? value : value === undefined ? "" : preview(value, 200);
