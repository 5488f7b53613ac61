# Compiles bundles as tiny was compiled. The build context is specc's sources (see README.md).
# https://hub.docker.com/_/python
# https://docs.jax.dev/en/latest/installation.html
FROM python:3.12-slim
COPY . /src
RUN python3 -m pip install --no-cache-dir /src jax==0.10.2 'flatbuffers>=25'
RUN useradd --system --uid 10001 --create-home specc
USER 10001
WORKDIR /models
HEALTHCHECK NONE
ENTRYPOINT ["specc"]
