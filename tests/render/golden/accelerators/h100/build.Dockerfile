# Compiles bundles as tiny was compiled. The build context is specc's sources (see README.md).
# https://hub.docker.com/r/nvidia/cuda/tags
# https://pypi.org/project/tensorrt/
FROM nvidia/cuda:13.0.1-runtime-ubuntu24.04
ENV PIP_BREAK_SYSTEM_PACKAGES=1
RUN python3 -m pip --version || { apt-get update && apt-get install -y --no-install-recommends python3 python3-pip && rm -rf /var/lib/apt/lists/*; }
RUN python3 -c "import sys; sys.exit(sys.version_info < (3, 11))"
COPY . /src
RUN python3 -m pip install --no-cache-dir /src tensorrt-rtx==1.7.1.116 onnx==1.23.2 'tensorrt>=11' 'cuda-python>=13'
RUN useradd --system --uid 10001 --create-home specc
USER 10001
WORKDIR /models
HEALTHCHECK NONE
ENTRYPOINT ["specc"]
