# Image with the services and the command `coldnotify`. Kafka runs in an image of its own.
FROM python:3.11.14-slim-bookworm AS wheels
WORKDIR /src
COPY . .
RUN python -m pip wheel --no-cache-dir --wheel-dir /wheels -c constraints.txt ./schemas ./clients/python '.[otel,postgres,usage]'

FROM python:3.11.14-slim-bookworm
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    python -m pip install --no-cache-dir --no-index --find-links /wheels 'coldnotify-server[otel,postgres,usage]' \
    && useradd --system --uid 10001 --no-create-home coldnotify
USER 10001
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["coldnotify"]
