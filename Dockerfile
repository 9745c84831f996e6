# The command and the server on a CPU, without PyTorch, as an ordinary user.
#   docker build -t luvli .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" luvli predict photos/ --draw --out results
#   docker run --rm -p 8000:8000 -v "$PWD/tokens:/run/tokens:ro" luvli \
#       serve --host 0.0.0.0 --token-file /run/tokens      # a token of 16 characters or more on each line

# python:3.12-slim by its digest, packages by those of their files (tools/lock.py)
ARG PYTHON=python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea

FROM $PYTHON AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM $PYTHON
COPY locks/server.txt /tmp/locks.txt
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-deps --require-hashes --requirement /tmp/locks.txt \
    && pip install --no-cache-dir --no-deps /wheels/luvli-*.whl \
    && rm -r /wheels /tmp/locks.txt \
    && useradd --create-home --uid 1000 luvli
USER luvli
WORKDIR /data
ENTRYPOINT ["luvli"]
CMD ["--help"]
