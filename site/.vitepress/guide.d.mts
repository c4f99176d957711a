export function readGuide(text: string): { text: string; items: { text: string; link: string }[] }[];
