// Selects the light, dark or system theme. The browser remembers it.
import { useLayoutEffect, useState } from "preact/hooks";

const key = "holdfast theme";
const themes = ["system", "light", "dark"] as const;
type Theme = (typeof themes)[number];

export function ThemeSwitch() {
  const [theme, setTheme] = useState<Theme>(() => remembered());
  // A layout effect: a later one would flash the other colours, and an immediate reload would lose the choice.
  useLayoutEffect(() => {
    if (theme === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
    try {
      localStorage.setItem(key, theme);
    } catch {
      // Without storage the next visit uses the system theme.
    }
  }, [theme]);
  return (
    <label class="theme">
      <span>Theme</span>
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
