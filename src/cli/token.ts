// holdfast token: asks a server for a token that opens only one user's conversations.
import type { Command } from "commander";
import { createClient } from "../client/client.ts";
import type { Agent } from "../core/agent.ts";
import { print } from "../io/plain.ts";
import { duration } from "./flags.ts";
import { requiredOption } from "./help.ts";

interface Flags {
  server: string;
  token: string;
  expires?: number;
  json?: boolean;
}

export function add(program: Command): void {
  program
    .command("token")
    .description("Print a token that opens only the conversations of one user.")
    .argument("<user>", "the user that the token names")
    .addOption(requiredOption("--server <url>", "an agent on a server, as in http://127.0.0.1:8080/concierge"))
    .addOption(requiredOption("--token <text>", "the server's bearer token").env("HOLDFAST_TOKEN"))
    .option("--expires <duration>", "how long the token is valid, as in 30d (default: 1d)", duration)
    .option("--json", "print the token, its user and its expiry as JSON")
    .addHelpText("after", "\nExample:\n  $ npx holdfast token ann --server http://127.0.0.1:8080 --token SECRET")
    .action(async (user: string, { server, token, expires, json }: Flags) => {
      const client = createClient<Agent>(server, { token, retryFor: 0 });
      const issued = await client.userToken(user, expires && Date.now() + expires);
      print(json ? JSON.stringify(issued) : issued.token);
    });
}
