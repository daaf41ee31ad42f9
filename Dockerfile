# evenhand on a CPU. `docker build -t evenhand .` builds the core with the local page;
# `--build-arg EXTRAS=web,endpoint,models` adds what models need.
FROM python:3.12-slim AS build
ARG EXTRAS=web,endpoint
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/evenhand \
    && /opt/evenhand/bin/pip install --no-cache-dir --constraint constraints.txt ".[${EXTRAS}]"

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 evenhand
COPY --from=build /opt/evenhand /opt/evenhand
ENV PATH=/opt/evenhand/bin:$PATH EVENHAND_CACHE=/home/evenhand/.cache/evenhand PYTHONUNBUFFERED=1
USER 10001
WORKDIR /home/evenhand
# The page listens on the loopback interface of the container, as on a desktop. To open it from outside, say so:
#   docker run -p 127.0.0.1:8000:8000 -v "$PWD/runs:/home/evenhand/runs:ro" evenhand \
#     serve runs --read-only --host 0.0.0.0 --port 8000 --allow-host localhost --no-browser
ENTRYPOINT ["evenhand"]
CMD ["serve", "--no-browser", "--port", "8000"]
