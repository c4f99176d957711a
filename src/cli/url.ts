// Tells addresses of servers from folders, files and packages.

export function isUrl(target: string | undefined): target is string {
  return target !== undefined && /^https?:\/\//.test(target);
}
