# The build stage collects everything that the image holds in /image and /writable. The image has no shell and no
# other program: health checks are left to the orchestrator, which asks the operator listener.
FROM golang:1.26.9-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# Without cgo the binary is static.
RUN CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /image/parley ./cmd/parley
# Webhooks and the provider are called by TLS. No time zone is needed: all times are UTC.
RUN install -D -m 444 /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt
# A new volume that is mounted at /data/media gets the owner of this directory. It is copied inside another one,
# because --chown need not change the directory that is copied to.
RUN mkdir -p /writable/media

FROM scratch
COPY --from=build /image /
COPY --from=build --chown=65532:65532 /writable /data
USER 65532:65532
ENTRYPOINT ["/parley"]
CMD ["serve"]
