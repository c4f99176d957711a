// The entry point of the page.
import { render } from "preact";
import { App } from "./app.tsx";
import { bundleFiles } from "./data/bundle-files.ts";
import { bundleSource } from "./data/bundle.ts";
import { serverSource } from "./data/server.ts";
import "./style/base.css";

const folder = document.querySelector<HTMLMetaElement>('meta[name="holdfast-data"]')?.content ?? "";
const source = folder === "" ? serverSource() : bundleSource(bundleFiles(folder));
render(<App source={source} />, document.getElementById("app") as HTMLElement);
