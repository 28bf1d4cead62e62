# docker buildx build --platform linux/amd64,linux/arm64 --tag NAME:TAG .
# Each platform builds on its own (natively or emulated), so no cross compiler is needed.
FROM rust:1.95-bookworm AS build
ARG KARPENTER_COMMIT
ENV KARPENTER_COMMIT=$KARPENTER_COMMIT
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin karpenter-provider-rackspace-spot

# glibc and certificates, nothing else
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/release/karpenter-provider-rackspace-spot /karpenter-provider-rackspace-spot
# Where the kernel gives huge pages to everybody (transparent_hugepage=always), each that is touched holds 2 MiB.
ENV MIMALLOC_ALLOW_THP=0
USER 65532:65532
ENTRYPOINT ["/karpenter-provider-rackspace-spot"]
