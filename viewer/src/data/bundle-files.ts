// Loads the files of a bundle. They are scripts, as a page that is opened from disk can read nothing else.
import type { LoadFile } from "./bundle.ts";

declare global {
  /** What the files of a bundle call. */
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
        if (json === undefined) reject(new Error(`the bundle lacks ${file}, or it is damaged`));
        else resolve(JSON.parse(json));
      };
      script.addEventListener("load", end);
      script.addEventListener("error", end);
      script.src = file;
      document.head.append(script);
    });
  }

  return (name) => {
    // Whoever asks meanwhile is given the same.
    const known = loading.get(name) ?? load(name);
    loading.set(name, known);
    return known;
  };
}
