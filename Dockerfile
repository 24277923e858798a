# cdsync in a container: docs/deployment.md. Build: docker build -t cdsync .
FROM node:22-slim AS build
WORKDIR /build
COPY . .
RUN npm ci --no-audit --no-fund
RUN npm pack --pack-destination /tmp

FROM node:22-slim
# The image's own user: files of a volume belong to 1000.
RUN mkdir -p /opt/cdsync /etc/cdsync /work && chown node:node /work && chmod 700 /work
COPY --from=build /tmp/cdsync-*.tgz /tmp/
RUN npm install --prefix /opt/cdsync --omit=dev --no-audit --no-fund /tmp/cdsync-*.tgz && rm /tmp/cdsync-*.tgz
ENV PATH=/opt/cdsync/node_modules/.bin:$PATH CDSYNC_LOG_FORMAT=json
USER node
WORKDIR /work
VOLUME /work
# SIGTERM makes a run keep its checkpoint: give it time (docker stop --time 120).
ENTRYPOINT ["cdsync"]
CMD ["run", "/etc/cdsync/cdsync.yaml", "--quiet"]
