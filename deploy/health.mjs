// The health check of the image: exits with 0 if the server is ready. `node deploy/health.mjs [PORT]`, by default 8080.
const port = process.argv[2] ?? "8080";
try {
  const { status } = await fetch(`http://127.0.0.1:${port}/readyz`, { signal: AbortSignal.timeout(3_000) });
  if (status !== 200) console.error(`/readyz answers ${status}`);
  process.exitCode = status === 200 ? 0 : 1;
} catch (thrown) {
  console.error(`/readyz does not answer: ${thrown.cause?.message ?? thrown.message}`);
  process.exitCode = 1;
}
