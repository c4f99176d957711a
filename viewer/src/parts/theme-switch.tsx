// Light, dark, or as the system has it. Remembered by the browser.
import { useLayoutEffect, useState } from "preact/hooks";

const key = "holdfast theme";
const themes = ["system", "light", "dark"] as const;
type Theme = (typeof themes)[number];

export function ThemeSwitch() {
  const [theme, setTheme] = useState<Theme>(() => remembered());
  // Not after the page was painted: it would be seen in other colours first, and a reload at once would forget them.
  useLayoutEffect(() => {
    if (theme === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
    try {
      localStorage.setItem(key, theme);
    } catch {
      // A browser that remembers nothing shows it as the system has it the next time.
    }
  }, [theme]);
  return (
    <label class="theme">
      <span class="unseen">Colours</span>
      <select value={theme} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
        {themes.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

function remembered(): Theme {
  try {
    return themes.find((name) => name === localStorage.getItem(key)) ?? "system";
  } catch {
    return "system";
  }
}
