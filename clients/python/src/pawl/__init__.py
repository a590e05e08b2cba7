"""Pawl: durable background tasks, from Python.

    from pawl import Client, Worker

    Client().enqueue("greet", {"name": "world"})

    worker = Worker(queues=["default"])

    @worker.task("greet")
    def greet(run):
        return f"hello {run.payload['name']}"

    worker.run()

`pawl.aio` has the same for asyncio. What the server promises to workers is in docs/workers.md.
"""

from ._http import PawlError, Problem, Unavailable
from ._runs import Fail, Retry, Run, Snooze, Spawn, Stopped
from .client import Client
from .worker import Worker

__all__ = ["Client", "Fail", "PawlError", "Problem", "Retry", "Run", "Snooze", "Spawn", "Stopped", "Unavailable", "Worker"]
__version__ = "0.1.0"
