# Programs of your own in the image of rstreams: a worker, a web application. From the top folder of the repository:
#
#   docker build -f examples/docker/Dockerfile -t rstreams .
#   docker build -f examples/docker/service.Dockerfile -t shop examples/services
#   docker run --rm -e AMQP_URL=amqp://node:5672 -e QUEUE=orders -e ALIVE=/tmp/alive shop
#
# In the place of examples/services give the folder of your own programs. ../services/worker.yaml runs its worker.py.
FROM rstreams
USER root
RUN pip install --no-cache-dir fastapi uvicorn
USER nobody
WORKDIR /app
COPY *.py ./
ENTRYPOINT []
CMD ["python", "worker.py"]
