# docker build -t ray-tpu-operator:0.1.0 .
#
# Debian's libraries in both stages: the binaries link against the ones of the release they run on.

FROM debian:12-slim AS build
WORKDIR /src
# The package list in a layer of its own: it changes less often than the sources.
COPY scripts/deps.sh scripts/
RUN scripts/deps.sh build
COPY . .
RUN make all && strip build/ray-tpu-operator build/raytpu

FROM debian:12-slim
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        ca-certificates \
        libcjson1 \
        libcurl4 \
        libmicrohttpd12 \
        libssl3 \
        libyaml-0-2 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/build/ray-tpu-operator /src/build/raytpu /usr/local/bin/
LABEL org.opencontainers.image.title="ray-tpu-operator" \
      org.opencontainers.image.description="Runs Ray and other workloads on multi-host Cloud TPU slices" \
      org.opencontainers.image.licenses="Apache-2.0"
# By number, so that runAsNonRoot can be checked without /etc/passwd.
USER 65532:65532
# Webhook, metrics, health.
EXPOSE 9443 8080 8082
ENTRYPOINT ["/usr/local/bin/ray-tpu-operator"]
