# The command and the server on a CPU, without PyTorch, as an ordinary user.
#   docker build -t luvli .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" luvli predict photos/ --draw --out results
#   docker run --rm -p 8000:8000 -v "$PWD/tokens:/run/tokens:ro" luvli \
#       serve --host 0.0.0.0 --token-file /run/tokens      # a token of 16 characters or more on each line
FROM python:3.12-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --constraint /tmp/constraints.txt \
        "$(echo /wheels/luvli-*.whl)[serve,video]" \
    && rm -r /wheels /tmp/constraints.txt \
    && useradd --create-home --uid 1000 luvli
USER luvli
WORKDIR /data
ENTRYPOINT ["luvli"]
CMD ["--help"]
