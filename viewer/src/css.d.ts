// Types for style sheets, which are imported for their side effect only.
declare module "*.css";
