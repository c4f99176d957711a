// The actions at the shown version: fork, verify, rewind, close. The server decides, and the page shows its answer.
import { useState } from "preact/hooks";
import type { Json } from "../../../../src/core/json.ts";
import type { EnvironmentAbout } from "../../../../src/rollout/collection-view.ts";
import type { Verification } from "../../../../src/core/sessions.ts";
import { linkTo } from "../../address.ts";
import { ask, post } from "../../data/server.ts";
import { useAction } from "../../data/use-action.ts";
import { ConfirmDialog } from "../../parts/confirm-dialog.tsx";
import { number } from "../../parts/format.ts";
import { preview } from "../../parts/json-rows.ts";
import { RefusalNote } from "../../parts/refusal-note.tsx";
import { Playground } from "./playground.tsx";
import { ContinueWithModel } from "./continue-with-model.tsx";
import { RewardChart } from "./reward-chart.tsx";
import "./actions.css";

export interface ActionsProps {
  environment: EnvironmentAbout;
  session: string;
  models: string[];
  version: number;
  last: number;
  isEnded: boolean;
  onVersion(version: number): void;
}

export function Actions({ environment, session, models, version, last, isEnded, onVersion }: ActionsProps) {
  const path = `${environment.at}/v1/sessions/${encodeURIComponent(session)}`;
  const fork = useAction();
  const rewind = useAction();
  const openFork = async (): Promise<void> => {
    const { session: made } = await post<{ session: string }>(`${path}/fork`, { version });
    location.hash = linkTo(["sessions", environment.name, made]);
  };
  const goBack = async (): Promise<void> => {
    await post(`${path}/rewind`, { version });
    onVersion(Infinity);
  };
  const isWhole = !environment.bare;
  return (
    <section class="card actions" aria-label="Actions">
      <div class="row">
        <h2>Actions</h2>
        <button class="primary" disabled={fork.isBusy} onClick={() => fork.start(openFork)}>
          Fork from version {version}
        </button>
        {isWhole && <Verify path={path} version={version} />}
        {isWhole && <RewardChart path={path} {...{ version, last, onVersion }} />}
      </div>
      <RefusalNote act={fork} />
      {isEnded && <p class="dim actions-note">This session has ended. You can fork it from any version.</p>}
      {isWhole && !isEnded && (
        <>
          {version < last && (
            <p class="dim actions-note">
              A call continues from the newest version, {last}. To continue from version {version}, fork it.
            </p>
          )}
          <Playground at={environment.at} path={path} onDone={() => onVersion(Infinity)} />
          {models.length > 0 && <ContinueWithModel path={path} models={models} onStart={() => onVersion(Infinity)} />}
        </>
      )}
      {!isWhole && (
        <p class="dim actions-note">
          This server does not have the environment's code. You can fork and close its sessions, but not call tools.
        </p>
      )}
      {!isEnded && (
        <div class="row actions-danger">
          <span class="dim">These actions affect everyone who uses the session:</span>
          {isWhole && (
            <button disabled={rewind.isBusy || version >= last} onClick={() => rewind.start(goBack)}>
              Rewind to version {version}
            </button>
          )}
          <CloseButton path={path} />
          <RefusalNote act={rewind} />
        </div>
      )}
    </section>
  );
}

function Verify({ path, version }: { path: string; version: number }) {
  const act = useAction();
  const [found, setFound] = useState<{ version: number; reward: number; details: { [name: string]: Json } }>();
  const verify = async (): Promise<void> => {
    const { verdict } = await post<Verification>(`${path}/verify`, { version });
    const { reward, ...details } = verdict;
    setFound({ version, reward, details });
  };
  return (
    <>
      <button disabled={act.isBusy} onClick={() => act.start(verify)}>
        {act.isBusy ? "Verifying…" : `Verify version ${version}`}
      </button>
      <output aria-live="polite">
        {found && (
          <>
            version {found.version}: <b>reward {number(found.reward)}</b>{" "}
            {Object.keys(found.details).length > 0 && <code>{preview(found.details, 300)}</code>}
          </>
        )}
      </output>
      <RefusalNote act={act} />
    </>
  );
}

/** Closes the session, which cannot be undone. */
function CloseButton({ path }: { path: string }) {
  const [isAsking, setIsAsking] = useState(false);
  return (
    <>
      <button onClick={() => setIsAsking(true)}>Close the session</button>
      {isAsking && (
        <ConfirmDialog
          title="Close this session?"
          what="You can still read and fork it, but nobody can call its tools."
          action="Close it"
          act={async () => void (await ask(path, { method: "DELETE" }))}
          onEnd={() => setIsAsking(false)}
        />
      )}
    </>
  );
}
