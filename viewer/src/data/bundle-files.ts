// Loads the files of a bundle as scripts, because a page opened from disk cannot fetch files.
import type { LoadFile } from "./bundle.ts";

declare global {
  /** Each file of a bundle calls this function. */
  var holdfastData: ((name: string, json: string) => void) | undefined;
}

export function bundleFiles(folder: string): LoadFile {
  const given = new Map<string, string>();
  const loading = new Map<string, Promise<unknown>>();
  globalThis.holdfastData = (name, json) => given.set(name, json);

  function load(name: string): Promise<unknown> {
    const file = `${folder}/${name}.js`;
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      const end = (): void => {
        const json = given.get(name);
        given.delete(name);
        loading.delete(name);
        script.remove();
        if (json === undefined) reject(new Error(`the bundle file ${file} is missing or damaged`));
        else resolve(JSON.parse(json));
      };
      script.addEventListener("load", end);
      script.addEventListener("error", end);
      script.src = file;
      document.head.append(script);
    });
  }

  return (name) => {
    // Concurrent callers share one load.
    const known = loading.get(name) ?? load(name);
    loading.set(name, known);
    return known;
  };
}
