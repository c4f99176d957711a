# The server as an image. `docker build -t holdfast .`, then see compose.yaml and docs/operations.md.

FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
COPY viewer/package.json ./viewer/
# No scripts: with this Node, SQLite needs no native build, and nothing else does.
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
COPY viewer ./viewer
RUN npm run build
# What stays is what the package needs, and those of its optional packages that the image has, as the lock file has them.
COPY deploy/dependencies.mjs ./deploy/
RUN node deploy/dependencies.mjs && npm prune --omit=dev --ignore-scripts

FROM node:24-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build /app/package.json ./package.json
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY deploy/health.mjs ./deploy/
COPY examples ./examples
COPY templates ./templates
# For SQLite. A volume that is mounted here takes over whose it is.
RUN mkdir /data && chown node:node /data
USER node
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=4s --start-period=20s --retries=3 CMD ["node", "deploy/health.mjs"]
ENTRYPOINT ["node", "dist/cli/main.js"]
CMD ["serve", "examples/counter", "--host", "0.0.0.0", "--port", "8080", "--store", "sqlite:/data/holdfast.db"]
