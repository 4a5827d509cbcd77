# electra serve in a container; docs/serving.md says how to build and run it.
FROM python:3.11-slim

# The package index of PyTorch's CPU builds, or of those for a version of CUDA (empty: pip's own, whose build is large).
ARG TORCH_INDEX=""
WORKDIR /opt/electra
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY src src
# hadolint ignore=DL3013  # constraints.txt has the versions
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$(grep ^torch== constraints.txt)" \
 && pip install --no-cache-dir -c constraints.txt '.[serve,data,onnx]'

# Nobody needs to be root to answer questions, and nothing is written.
RUN useradd --create-home --uid 10001 electra
USER 10001
ENV HF_HUB_OFFLINE=1
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz')"]
# Models are mounted: docker run -p 127.0.0.1:8000:8000 -v "$PWD/runs:/models:ro" electra /models/mine
ENTRYPOINT ["electra", "serve", "--host", "0.0.0.0"]
