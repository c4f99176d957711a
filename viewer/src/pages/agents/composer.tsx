// The message box of a conversation: send a message, stop the agent, or resume a turn.
import { RefusalNote } from "../../parts/refusal-note.tsx";
import type { Conversation } from "./use-conversation.ts";

export interface ComposerProps {
  conversation: Conversation;
  text: string;
  onText(text: string): void;
  /** Whether the last turn was interrupted. */
  isCutShort: boolean;
}

export function Composer({ conversation, text, onText, isCutShort }: ComposerProps) {
  const { isRunning, run, stop } = conversation;
  const send = async (): Promise<void> => {
    if (text.trim() === "" || isRunning) return;
    onText("");
    // A message that the server refused returns to the box.
    if (!(await run(text))) onText(text);
  };
  return (
    <form
      class="chat-composer"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <RefusalNote act={conversation} />
      {isCutShort && !isRunning && (
        <p class="row chat-failed">
          <span class="warn">The last turn was interrupted.</span>
          <button type="button" onClick={() => void run()}>
            Continue the turn
          </button>
        </p>
      )}
      <label class="unseen" for="chat-message">
        Message
      </label>
      <textarea
        id="chat-message"
        rows={2}
        placeholder="Message. Enter sends, Shift+Enter adds a line."
        value={text}
        onInput={({ currentTarget }) => onText(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          void send();
        }}
      />
      {isRunning ? (
        <button type="button" onClick={stop}>
          Stop
        </button>
      ) : (
        <button class="primary" disabled={text.trim() === ""}>
          Send
        </button>
      )}
    </form>
  );
}
