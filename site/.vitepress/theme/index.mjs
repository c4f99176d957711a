// The default theme, with tables that are easier to read.
import theme from "vitepress/theme";
import "./tables.css";

export default theme;
