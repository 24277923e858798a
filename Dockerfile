# cdsync in a container: docs/deployment.md. Build: docker build -t cdsync . The tag below moves; a release is built by digest:
# --build-arg NODE=node:22-slim@sha256:… (CONTRIBUTING.md, "Commit and release").
ARG NODE=node:22-slim
FROM ${NODE} AS build
WORKDIR /build
COPY . .
# The versions of the lock file, each checked against its checksum.
RUN npm ci --no-audit --no-fund
RUN npm run build
RUN npm prune --omit=dev --no-audit --no-fund

FROM ${NODE}
# Any user may run it: what it keeps in /work is for that user alone.
RUN mkdir -p /opt/cdsync /etc/cdsync /work && chmod 1777 /work
COPY --from=build /build/package.json /build/package-lock.json /opt/cdsync/
COPY --from=build /build/node_modules /opt/cdsync/node_modules
COPY --from=build /build/dist /opt/cdsync/dist
RUN mkdir -p /usr/local/bin && chmod 755 /opt/cdsync/dist/src/cli/main.js && ln -s /opt/cdsync/dist/src/cli/main.js /usr/local/bin/cdsync
ENV CDSYNC_LOG_FORMAT=json
USER 1000:1000
WORKDIR /work
VOLUME /work
# SIGTERM makes a run keep its checkpoint: give it time (docker stop --time 120).
ENTRYPOINT ["cdsync"]
CMD ["run", "/etc/cdsync/cdsync.yaml", "--quiet"]
