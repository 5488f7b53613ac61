# Compiles bundles as tiny was compiled. The build context is specc's sources (see README.md).
# https://hub.docker.com/r/rocm/dev-ubuntu-24.04/tags
# https://rocm.docs.amd.com/projects/AMDMIGraphX/en/latest/install/install-migraphx.html
FROM rocm/dev-ubuntu-24.04:7.2.4-complete
ENV PIP_BREAK_SYSTEM_PACKAGES=1
RUN python3 -m pip --version || { apt-get update && apt-get install -y --no-install-recommends python3 python3-pip && rm -rf /var/lib/apt/lists/*; }
RUN python3 -c "import sys; sys.exit(sys.version_info < (3, 11))"
RUN apt-get update && apt-get install -y --no-install-recommends migraphx && rm -rf /var/lib/apt/lists/*
ENV PYTHONPATH=/opt/rocm/lib
COPY . /src
RUN python3 -m pip install --no-cache-dir /src onnx==1.23.2
RUN useradd --system --uid 10001 --create-home specc
USER 10001
WORKDIR /models
HEALTHCHECK NONE
ENTRYPOINT ["specc"]
